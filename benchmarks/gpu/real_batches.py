"""Updates of the same number of tokens from several micro-batches of real text, each with its own lengths and padding,
and from one."""

import statistics
from pathlib import Path

from benchmarks.common.real_text import CORPORA
from benchmarks.common.work import Size
from benchmarks.gpu.stage_process import one_by_one
from benchmarks.gpu.steps import Device, in_turn, our_update
from minitransformer.text import BatchStream, Tokenizer, read_parallel
from minitransformer.training import Corpus

TOKENS = 27_200  # positions of an update on each side, at most, as in examples/wmt14
COUNTS = ("8", "2", "1")  # micro-batches that share them
PIECES = 8000  # subwords that are learned, at most


def real_batches(size: Size, device: Device, data: Path | None) -> dict:
    """In bfloat16, for each number of micro-batches: milliseconds of device and host, target tokens/s, padding.

    size: of its model, of whose vocabulary the text may use only a part, and of its rounds
    """
    corpora = [] if data is None else [name for name in CORPORA if (data / name / "train.en").is_file()]
    if not corpora:
        return {"left out": "no --data" if data is None else f"no train.en of {' or '.join(CORPORA)}"}
    lines = read_parallel(*(data / corpora[0] / f"train.{language}" for language in ("en", "de")))
    tokenizer = Tokenizer.train([*lines[0], *lines[1]], vocab_size=min(PIECES, size.model.vocab_size))
    pairs = Corpus.from_lines(tokenizer, lines).train

    def measure(count: str) -> dict:
        budget = TOKENS // int(count)
        stream = BatchStream(*pairs, src_tokens=budget, tgt_tokens=budget, seed=1)
        batches = [stream.batch(number) for number in range(int(count))]
        _, update = our_update(size, "bfloat16", device, batches)
        times = in_turn({"update": update}, size, device)["update"]
        found = {f"{kind} ms": statistics.median(values) for kind, values in times.items()}
        real, positions = sum(batch.n_tgt_tokens for batch in batches), sum(batch.tgt_in.size for batch in batches)
        return found | {"target tokens/s": 1000 * real / found["device ms"], "padding": 1 - real / positions}

    return one_by_one(COUNTS, measure, {"text": corpora[0]}, device.wait)
