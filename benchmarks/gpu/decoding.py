"""Translation on a GPU, beam 4, random weights, float32, as many tokens out as in: ours beside Hugging Face Marian."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.real_text import CORPORA
from benchmarks.common.search_cases import random_model, random_sources
from benchmarks.common.work import Size
from benchmarks.gpu.stage_process import reason
from benchmarks.gpu.steps import Device, once
from minitransformer.generation import beam_search
from minitransformer.models import Transformer
from minitransformer.text import Tokenizer, read_lines, read_parallel

NEWSTEST, BATCH = "newstest/newstest2014.en-de.en", 128


def decoding(size: Size, device: Device, sentences: int) -> dict:
    """Sentences of one length, in one batch."""
    return translated(size, [(sentences, size.tokens - 1)], device, rounds=3)


def newstest(size: Size, device: Device, data: Path | None, every: int) -> dict:
    """As many sentences as newstest2014 has, with its lengths: sorted, `BATCH` at a time. All sentences of a batch get
    the length of its longest, so that nobody gains or loses by padding. The words are random, like the weights.

    every: take one out of this many sentences
    """
    if data is None or not (data / NEWSTEST).is_file():
        return {"left out": "no --data" if data is None else f"no {NEWSTEST}"}
    corpora = [name for name in reversed(CORPORA) if (data / name / "train.en").is_file()]  # news first
    if not corpora:
        return {"left out": f"no text to learn subwords from: train.en and train.de of {' or '.join(CORPORA)}"}
    learned = read_parallel(*(data / corpora[0] / f"train.{language}" for language in ("en", "de")))
    tokenizer = Tokenizer.train([line for side in learned for line in side], vocab_size=size.model.vocab_size)
    lengths = sorted(max(1, len(ids)) for ids in tokenizer.encode_lines(read_lines(data / NEWSTEST)[::every]))
    batches = [lengths[start : start + BATCH] for start in range(0, len(lengths), BATCH)]
    found = translated(size, [(len(each), each[-1]) for each in batches], device, rounds=1)
    told = {"subwords of": corpora[0], "tokens of newstest2014": sum(lengths)}
    return told | {"batches": len(batches)} | found


def translated(size: Size, batches: Sequence[tuple[int, int]], device: Device, rounds: int) -> dict:
    """Sentences a second, and how many outputs equal ours token by token (rounding may decide between ties). The
    runners take turns in each round.

    batches: how many sentences of how many tokens
    """
    model, rng = random_model(size.model, device.xp), np.random.default_rng(0)
    sources = [random_sources(rng, size.model.vocab_size, *shape) for shape in batches]
    count = sum(len(src) for src in sources)
    result: dict = {"sentences": count, "new tokens": sum(n * length for n, length in batches)}
    runners: dict[str, Callable[[], list[list[int]]]] = {"ours": _ours(model, sources)}
    outputs = {"ours": runners["ours"]()}  # compiles
    try:
        marian = _marian(model, sources, device)
        outputs["Marian"] = marian()
        runners["Marian"] = marian
    except Exception as error:
        result["Marian"] = {"failed": reason(error)}
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            seconds[name].append(once(run, device))
    for name, times in seconds.items():
        same = sum(ids == ours for ids, ours in zip(outputs[name], outputs["ours"], strict=True))
        result[name] = {"sentences/s": count / statistics.median(times), "seconds": times, "same as ours": same}
    return result | {"says": ", ".join(f"{name} {result[name]['sentences/s']:.1f} sentences/s" for name in seconds)}


def _ours(model: Transformer, sources: Sequence[np.ndarray]) -> Callable[[], list[list[int]]]:
    options = {"beam_size": 4, "alpha": 0.0, "max_extra": 0}
    return lambda: [best.ids for src in sources for (best,) in beam_search(model, src, **options)]


def _marian(model: Transformer, sources: Sequence[np.ndarray], device: Device) -> Callable[[], list[list[int]]]:
    import torch

    from benchmarks.peers.marian import marian_model

    marian = marian_model(model).to(device.torch_device)
    batches = [torch.from_numpy(src).to(device.torch_device) for src in sources]

    def translate() -> list[list[int]]:
        torch.backends.cuda.matmul.allow_tf32 = False
        options = {"num_beams": 4, "do_sample": False, "length_penalty": 0.0}
        found = []
        with torch.inference_mode():
            for ids in batches:
                limits = {"attention_mask": torch.ones_like(ids), "max_new_tokens": ids.shape[1] - 1}
                found += marian.generate(ids, **limits, **options)[:, 1:].tolist()  # without BOS
        return found

    return translate
