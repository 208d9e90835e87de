"""How fast translation is: ours, Hugging Face Marian ``generate`` and CTranslate2, in turn in one process.

    python -m benchmarks.decoding [--quick]

The base model (V 37,000) with random weights, the same in all three, float32; greedy search and a beam of 4; 1 and 32
sentences of 24 tokens; 24 and 64 new tokens. No output ends by itself (the vectors of PAD, BOS and EOS are zero, so
their logits are zero too, and thousands of others are larger) and no score is divided by a length, so all do the same
work. Marian runs in torch.inference_mode with its key-value cache and PyTorch's fused attention; CTranslate2 takes the
batch whole. Each uses as many threads as ours. The outputs are compared token by token; where beams differ, both must
have found the same log-probability to 1e-5 a token.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from tqdm import tqdm
from transformers import MarianMTModel

from benchmarks.common.race import race
from benchmarks.common.search_cases import Case, random_model, random_sources, search
from benchmarks.common.tables import run_benchmark
from benchmarks.peers.marian import ctranslate2_translator, marian_model
from examples.report import markdown_table, spread, with_extremes
from minitransformer.blas import product_threads
from minitransformer.config import ModelConfig
from minitransformer.models import Transformer

PEERS = ("marian", "ctranslate2")
ROUNDS, WARM_UP = 5, 1
TIE = 1e-5  # nats a token: log-probabilities nearer than this are equal up to rounding


ABOUT = """Tokens per second, median (lowest to highest) of the rounds; ratios of speeds are medians over rounds. The
base model with random weights, V 37,000, sources of 24 tokens. Same: equal to ours token by token."""

CASES = tuple(Case(s, t, k) for s in (1, 32) for k in (1, 4) for t in (24, 64))
QUICK_CASES = (Case(2, 24, 1), Case(2, 24, 4))
Output = tuple[list[int], float]
"""Token ids of the best hypothesis, and its log-probability (NaN where a peer does not tell)."""


def contestants(
    model: Transformer, marian: MarianMTModel, translator: ctranslate2.Translator, case: Case
) -> dict[str, Callable]:
    """What is timed, by name; each call translates all sentences of ``case``."""
    src = random_sources(np.random.default_rng(0), model.config.vocab_size, case.sentences)
    return {
        "ours": lambda: translate_ours(model, src, case),
        "marian": lambda: translate_marian(marian, src, case),
        "ctranslate2": lambda: translate_ctranslate2(translator, src, case),
    }


def translate_ours(model: Transformer, src: np.ndarray, case: Case) -> list[Output]:
    return [(each.ids, each.log_prob) for each in search(model, src, case)]


def translate_marian(marian: MarianMTModel, src: np.ndarray, case: Case) -> list[Output]:
    ids = torch.from_numpy(src)
    options = {} if case.beam_size == 1 else {"length_penalty": 0.0, "output_scores": True}
    with torch.inference_mode():
        found = marian.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            num_beams=case.beam_size,
            max_new_tokens=case.new_tokens,
            do_sample=False,
            return_dict_in_generate=True,
            **options,
        )
    scores = [float("nan")] * len(src) if case.beam_size == 1 else found.sequences_scores.tolist()
    return list(zip(found.sequences[:, 1:].tolist(), scores, strict=True))


def translate_ctranslate2(translator: ctranslate2.Translator, src: np.ndarray, case: Case) -> list[Output]:
    found = translator.translate_batch(
        [[str(token) for token in row] for row in src.tolist()],
        beam_size=case.beam_size,
        max_decoding_length=case.new_tokens,
        min_decoding_length=case.new_tokens,
        length_penalty=0.0,
        return_scores=case.beam_size > 1,
    )
    scores = [each.scores[0] if each.scores else float("nan") for each in found]
    return [([int(word) for word in each.hypotheses[0]], score) for each, score in zip(found, scores, strict=True)]


def agreement(ours: list[Output], theirs: list[Output]) -> dict[str, int]:
    """How many outputs are the same token by token, and how many of the others are ties."""
    same = sum(ids == other for (ids, _), (other, _) in zip(ours, theirs, strict=True))
    ties = sum(
        ids != other and abs(score - other_score) <= TIE * len(ids)
        for (ids, score), (other, other_score) in zip(ours, theirs, strict=True)
    )
    return {"outputs": len(ours), "same": same, "ties": ties}


def summary(case: Case, seconds: dict[str, list[float]], agreements: dict[str, dict[str, int]]) -> dict:
    """Tokens per second, median and extremes; ratios of speeds are medians of the rounds' own ratios."""
    result: dict = {"sentences": case.sentences, "new tokens": case.new_tokens, "search": case.search}
    for name, values in seconds.items():
        speeds = [case.sentences * case.new_tokens / value for value in values]
        result[name] = spread(speeds)
    for peer, found in agreements.items():
        ratios = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds[peer], strict=True)]
        result |= {f"ours / {peer}": statistics.median(ratios), f"agreement with {peer}": found}
    return result


def markdown(results: Sequence[dict]) -> list[str]:
    head = ["sentences", "search", "new tokens", "ours", "Marian", "CTranslate2"]
    head += ["ours / Marian", "ours / CTranslate2", "same as Marian", "same as CTranslate2"]
    rows = []
    for result in results:
        cells = [str(result["sentences"]), result["search"], str(result["new tokens"])]
        cells += [with_extremes(result[name], ".0f") for name in ("ours", *PEERS)]
        cells += [f"{result[f'ours / {peer}']:.2f}" for peer in PEERS]
        cells += [_agreement(result[f"agreement with {peer}"]) for peer in PEERS]
        rows.append(cells)
    return ["# Speed of translation", ABOUT, "`python -m benchmarks.decoding`", markdown_table(head, rows)]


def _agreement(counts: dict[str, int]) -> str:
    ties = f", {counts['ties']} ties" if counts["ties"] else ""
    return f"{counts['same']} of {counts['outputs']}{ties}"


def measure(quick: bool) -> tuple[dict, list[str]]:
    torch.set_num_threads(product_threads())
    config = ModelConfig(vocab_size=1000, n_layers=2, d_model=64, d_ff=128, n_heads=4) if quick else ModelConfig.base()
    model = random_model(config)
    model.prepare_for_inference()  # as in the commands that translate
    marian = marian_model(model)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        translator = ctranslate2_translator(marian, Path(folder), product_threads())
        for case in tqdm(QUICK_CASES if quick else CASES, desc="decoding", unit="case", leave=False):
            runners = contestants(model, marian, translator, case)
            seconds = race(runners, 1 if quick else ROUNDS, WARM_UP)
            outputs = {name: run() for name, run in runners.items()}
            agreements = {peer: agreement(outputs["ours"], outputs[peer]) for peer in PEERS}
            results.append(summary(case, seconds, agreements))
    return {"rounds": ROUNDS, "tokens per second": results}, markdown(results)


def main(argv: Sequence[str] | None = None) -> int:
    return run_benchmark(
        "decoding", __doc__, measure, argv, {name: version(name) for name in ("transformers", "ctranslate2")}
    )


if __name__ == "__main__":
    sys.exit(main())
