"""Copy or reverse a sequence of symbols: the smallest tasks that need attention, and nothing but attention.

    python examples/sequences.py copy
    python examples/sequences.py reverse                      a few minutes on two cores
    python examples/sequences.py copy --kernels simple        the readable ops alone

A sequence has 1 to 20 of 30 symbols. No test sequence occurs in training, so memorizing does not help: to copy, the
decoder must attend to the position it writes; to reverse, to the one as far from the other end.
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

# Matrices this small gain next to nothing from a second thread, and lose much where another program has its core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tqdm import tqdm

from minitransformer.checkpoints import average_checkpoints
from minitransformer.cli.common import report_errors
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_number
from minitransformer.config import UNK, Config, DataConfig, ExecutionConfig, ModelConfig, TrainingConfig
from minitransformer.figures import draw_attention, draw_learning_curves, picture_bytes
from minitransformer.generation import greedy_search
from minitransformer.models import Transformer
from minitransformer.text import pad_batch
from minitransformer.training import Corpus, Trainer, read_metrics

FIRST_SYMBOL = UNK + 1  # the ids before it are PAD, BOS, EOS and UNK
N_SYMBOLS = 30
LONGEST = 20
AVERAGED = 10  # checkpoints whose mean is tested, as in sec. 6.1: it is steadier than the last one
TASKS = {"copy": list, "reverse": lambda sequence: list(reversed(sequence))}


def draw_sequence(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choices(range(FIRST_SYMBOL, FIRST_SYMBOL + N_SYMBOLS), k=rng.randint(1, LONGEST)))


def draw_sequences(n_train: int, n_unseen: int, seed: int) -> tuple[list, list]:
    """Training sequences, and others that are not among them (so hardly any of one or two symbols)."""
    rng = random.Random(seed)
    train = [draw_sequence(rng) for _ in range(n_train)]
    known, unseen = set(train), {}
    while len(unseen) < n_unseen:
        sequence = draw_sequence(rng)
        if sequence not in known:
            unseen[sequence] = None  # a dict keeps the order of drawing
    return train, list(unseen)


def make_config(arguments: argparse.Namespace) -> Config:
    return Config(
        model=ModelConfig(vocab_size=FIRST_SYMBOL + N_SYMBOLS, n_layers=2, d_model=64, d_ff=256, n_heads=4, p_drop=0.0),
        # Two batches, of one length each, make an update: together 64 of the longest sequences, or more shorter ones.
        data=DataConfig(src_tokens=32 * (LONGEST + 1), tgt_tokens=32 * (LONGEST + 1)),
        training=TrainingConfig(
            directory=arguments.directory,
            seed=arguments.seed,
            updates=arguments.updates,
            micro_batches=2,
            warmup_steps=500,
            lr_scale=0.5,
            log_every=25,
            validate_every=500,
            save_every=100,
            keep_checkpoints=AVERAGED,
        ),
        execution=ExecutionConfig(kernels=arguments.kernels),
    )


def count_right(model: Transformer, sources: list, targets: list) -> int:
    """How many sources the model turns into exactly their targets, decoding greedily."""
    right = 0
    for start in tqdm(range(0, len(sources), 200), desc="testing", unit="batch"):
        part = slice(start, start + 200)
        batch = pad_batch(sources[part], targets[part])
        answers = greedy_search(model, batch.src)
        right += sum(list(answer.ids) == target for answer, target in zip(answers, targets[part], strict=True))
    return right


def draw_pictures(model: Transformer, source: list[int], target: list[int], folder: Path, task: str) -> None:
    curves = draw_learning_curves({task: read_metrics(folder / "metrics.jsonl")})
    (folder / "curves.png").write_bytes(picture_bytes(curves))
    batch = pad_batch([source], [target])
    maps = model.attention_maps(batch.src, batch.tgt_in)
    names = [[f"{symbol - FIRST_SYMBOL}" for symbol in side] + ["end"] for side in (source, target)]
    attention = draw_attention(maps["decoder.1.cross_attention"][0], *names, title=f"{task}: last decoder layer")
    (folder / "attention.png").write_bytes(picture_bytes(attention))
    print(f"pictures: {folder / 'curves.png'}, {folder / 'attention.png'}")


@report_errors
def main() -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("task", choices=TASKS)
    add_number(parser, "--updates", 4000, "updates of the parameters")
    add_number(parser, "--sequences", 100_000, "sequences to learn from")
    add_number(parser, "--unseen", 1000, "other sequences to test with")
    parser.add_argument("--seed", type=int, default=1, help="seed of data, weights and order (default 1)")
    parser.add_argument("--kernels", choices=("fast", "simple"), default="fast", help="default fast")
    parser.add_argument("--directory", help="default runs/TASK-KERNELS")
    arguments = parser.parse_args()
    arguments.directory = arguments.directory or f"runs/{arguments.task}-{arguments.kernels}"

    solve = TASKS[arguments.task]
    train, unseen = draw_sequences(arguments.sequences, 2 * arguments.unseen, arguments.seed)
    unseen, valid = unseen[: arguments.unseen], unseen[arguments.unseen :]
    train_pairs, valid_pairs, unseen_pairs = (
        ([list(sequence) for sequence in part], [solve(sequence) for sequence in part])
        for part in (train, valid, unseen)
    )
    trainer = Trainer(make_config(arguments), Corpus(train_pairs, valid_pairs))
    began = time.monotonic()
    outcome = trainer.run()
    print(f"{outcome.update} updates; this run took {time.monotonic() - began:.0f} s")
    if outcome.signal is not None:
        return outcome.exit_status
    checkpoints = trainer.folder.paths()[-AVERAGED:]
    model, _ = average_checkpoints(checkpoints).build()
    print(f"testing the mean of the last {len(checkpoints)} checkpoints")
    right = count_right(model, *unseen_pairs)
    print(f"{right} of {len(unseen)} sequences never seen in training: {arguments.task} exactly right")
    longest = max(range(len(unseen)), key=lambda row: len(unseen_pairs[0][row]))
    draw_pictures(model, unseen_pairs[0][longest], unseen_pairs[1][longest], Path(arguments.directory), arguments.task)
    return 0


if __name__ == "__main__":
    sys.exit(main())
