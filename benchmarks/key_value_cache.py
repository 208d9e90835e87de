"""What the prefix tree of the key-value cache gains by itself, against the plain cache.

    python -m benchmarks.key_value_cache [--quick]

The base model with random weights and V 8,000 or 37,000, and a small one; 1 and 32 sentences of 24 tokens; 25 and 64
new tokens; greedy search and a beam of 4. All kernels are fast on both sides, and only the cache differs; the outputs
must be the same. Times are CPU seconds of the process (with OPENBLAS_NUM_THREADS=1 other programs hardly change them);
the two take turns, and the ratio of their times is the median of the rounds' own ratios. Bytes: the most that the
arrays of the cache take between two steps, those of the source included, and without the copies made within a step.
Hypotheses of a random model share fewer tokens than those of a trained one, so the tree gains less here.

Results go to benchmarks/results/key_value_cache.MAKER.json and .md, MAKER that of the processor; --quick writes
nothing.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from benchmarks.common.machine import machine_facts, of_this_maker
from benchmarks.common.search_cases import Case, random_model, random_sources, search
from benchmarks.common.tables import facts_list, markdown_head, markdown_row, save_results
from minitransformer.allocator import keep_freed_memory
from minitransformer.config import ModelConfig
from minitransformer.generation import Hypothesis
from minitransformer.models import Transformer
from minitransformer.nn import KeyValueCache

CASES = tuple(Case(*each) for each in ((s, t, k) for s in (1, 32) for k in (1, 4) for t in (25, 64)))
QUICK_CASES = (Case(2, 25, 1), Case(2, 25, 4))
SMALL = dict(n_layers=4, d_model=128, d_ff=256, n_heads=4)  # the shape of the Multi30k example
CONFIGS = (ModelConfig(vocab_size=8_000, **SMALL), ModelConfig.base(8_000), ModelConfig.base(37_000))
ROUNDS = 3


class OneKindOfCache:
    """The model as a search sees it, with the one or the other cache, and the most bytes that it has held."""

    def __init__(self, model: Transformer, plain: bool):
        self.model, self.most_bytes, self.counts = model, 0, False
        self.config, self.max_positions = model.config, model.max_positions
        self.shares_prefixes, self.start = not plain, model.start

    def decode_step(self, last_ids: np.ndarray, cache: KeyValueCache) -> np.ndarray:
        logits = self.model.decode_step(last_ids, cache)
        if self.counts:
            self.most_bytes = max(self.most_bytes, held_bytes(cache))
        return logits


def held_bytes(cache: KeyValueCache) -> int:
    """Bytes of all arrays of the cache, each array that lends views to others once."""
    arrays = [each for pair in [*cache.layers.values(), *cache.memory] for each in pair]
    owners = {id(owner): owner for owner in (each if each.base is None else each.base for each in arrays)}
    return sum(owner.nbytes for owner in owners.values())


def compare(model: Transformer, case: Case, rounds: int) -> dict:
    """Times, bytes and agreement of both caches in one case."""
    src = random_sources(case, model.config.vocab_size)
    models = {name: OneKindOfCache(model, plain=name == "plain") for name in ("plain", "tree")}
    outputs: dict[str, list[Hypothesis]] = {}
    for name, each in models.items():
        each.counts = True
        outputs[name] = search(each, src, case)
        each.counts = False
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for number in range(rounds):
        for name in sorted(models, reverse=number % 2 == 1):  # in turn the first
            began = time.process_time()
            search(models[name], src, case)
            seconds[name].append(time.process_time() - began)
    ratios = [tree / plain for tree, plain in zip(seconds["tree"], seconds["plain"], strict=True)]
    same = sum(one.ids == other.ids for one, other in zip(outputs["plain"], outputs["tree"], strict=True))
    return {
        "vocab_size": model.config.vocab_size,
        "d_model": model.config.d_model,
        "sentences": case.sentences,
        "search": case.search,
        "new tokens": case.new_tokens,
        "seconds": seconds,
        "tree / plain": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "bytes": {name: each.most_bytes for name, each in models.items()},
        "same outputs": same,
    }


def markdown(facts: dict, results: Sequence[dict]) -> str:
    """The table, with the machine under it."""
    lines = [
        "# The key-value cache: plain, and as a prefix tree",
        "",
        "CPU milliseconds a step, median of the rounds; the ratio of times is the median (lowest to highest) of the",
        "rounds' own ratios; below 1 the tree is faster. MiB: the most that the cache's arrays take between two steps.",
        "Random weights, sources of 24 tokens, fast kernels on both sides; d_model 512 is the base model.",
        "",
        "`OPENBLAS_NUM_THREADS=1 python -m benchmarks.key_value_cache`",
        "",
    ]
    head = ["V", "d_model", "sentences", "search", "new tokens", "plain, ms", "tree, ms"]
    head += ["tree / plain", "plain, MiB", "tree, MiB", "same outputs"]
    lines += markdown_head(head)
    for result in results:
        cells = [f"{result['vocab_size']:,}"]
        cells += [str(result[name]) for name in ("d_model", "sentences", "search", "new tokens")]
        steps = result["new tokens"]
        cells += [f"{1000 * statistics.median(result['seconds'][name]) / steps:.1f}" for name in ("plain", "tree")]
        cells.append(f"{result['tree / plain']:.2f} ({result['lowest']:.2f} to {result['highest']:.2f})")
        cells += [f"{result['bytes'][name] / 2**20:.1f}" for name in ("plain", "tree")]
        lines.append(markdown_row([*cells, f"{result['same outputs']} of {result['sentences']}"]))
    lines += ["", *facts_list(facts)]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.key_value_cache", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two cases of a small model, one round, nothing written")
    options = parser.parse_args(argv)
    keep_freed_memory()
    facts = machine_facts()
    quick = (ModelConfig(vocab_size=1000, n_layers=2, d_model=64, d_ff=128, n_heads=4),)
    results = []
    for config in quick if options.quick else CONFIGS:
        model = random_model(config)
        for case in tqdm(
            QUICK_CASES if options.quick else CASES, desc=f"V {config.vocab_size}", unit="case", leave=False
        ):
            results.append(compare(model, case, 1 if options.quick else ROUNDS))
    text = markdown(facts, results)
    print(text)
    if not options.quick:
        save_results(of_this_maker("key_value_cache"), {"machine": facts, "rounds": ROUNDS, "cases": results}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
