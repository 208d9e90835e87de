"""Table 3 of the paper at class scale: every row trained on Multi30k en-de, beside what the paper measured.

    python -m examples.paper.table3 --params              parameters of every row, and the vocabulary that explains them
    python -m examples.paper.table3 --run C B base        train rows or groups of rows with three seeds each
    python -m examples.paper.table3 --run base-pre C3-pre           rows in pre-norm
    python -m examples.paper.table3                       the table and the picture of what has been trained so far

Scaling: d_model, d_ff, d_k and d_v are a quarter of the paper's, and there are half as many layers; heads, dropout,
label smoothing and positions are the paper's own. Every row, including big, has the same updates, batches and
learning-rate schedule. As in the paper's Table 3, perplexity and BLEU are measured on the development set, with beam 4
and without checkpoint averaging.
"""

import argparse
import json
import math
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each training has a core of its own
from examples import report_errors
from examples.paper.program import read_results, showing, write_report
from examples.paper.recurrent_tasks import multi30k_tokenizer
from examples.paper.sweep import Job, check_settings, run_sweep, run_to_end
from examples.paper.table3_report import PRE_NORM, draw_deltas, markdown
from examples.report import machine_facts
from minitransformer.blas import core_count
from minitransformer.checkpoints import load_checkpoint
from minitransformer.cli.main import Parser
from minitransformer.cli.options import add_number
from minitransformer.config import Config, DataConfig, ModelConfig, TrainingConfig
from minitransformer.errors import ConfigError, DataError, quote
from minitransformer.evaluation import corpus_bleu
from minitransformer.generation import translate_lines
from minitransformer.model_config import TABLE3_ROWS
from minitransformer.planning import parameter_count
from minitransformer.text import read_lines
from minitransformer.training import Trainer, read_metrics

PAPER = {
    "base": (4.92, 25.8, 65),
    "A1": (5.29, 24.9, None),
    "A2": (5.00, 25.5, None),
    "A3": (4.91, 25.8, None),
    "A4": (5.01, 25.4, None),
    "B1": (5.16, 25.1, 58),
    "B2": (5.01, 25.4, 60),
    "C1": (6.11, 23.7, 36),
    "C2": (5.19, 25.3, 50),
    "C3": (4.88, 25.5, 80),
    "C4": (5.75, 24.5, 28),
    "C5": (4.66, 26.0, 168),
    "C6": (5.12, 25.4, 53),
    "C7": (4.75, 26.2, 90),
    "D1": (5.77, 24.6, None),
    "D2": (4.95, 25.5, None),
    "D3": (4.67, 25.3, None),
    "D4": (5.47, 25.7, None),
    "E": (4.92, 25.7, None),
    "big": (4.33, 26.4, 213),
}
"""(perplexity per token, BLEU, millions of parameters) of each row  [Table 3, newstest2013]."""

SCALE = {"d_model": 4, "d_ff": 4, "d_k": 4, "d_v": 4, "n_layers": 2}
"""Divisors of the paper's figures. Layers are halved because in a pilot at an eighth of the widths six layers learned
less than two in as many updates (benchmarks/notes.md)."""

RESULTS = Path(__file__).parent / "results/table3.jsonl"


@report_errors
def main() -> int:
    arguments = parse_arguments()
    if arguments.params:
        print("\n".join(parameter_lines()))
    elif arguments.job:
        row, seed = arguments.job
        print(json.dumps(train_and_score(row, int(seed), arguments)))
    else:
        if arguments.run:
            train_rows(rows_of(arguments.run), arguments)
        report(arguments.results)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = Parser(prog="python -m examples.paper.table3", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--params", action="store_true", help="print the parameter counts (default: report the results)")
    what.add_argument("--run", nargs="+", metavar="ROW", help="train these rows or groups: base, A1, C, ...")
    what.add_argument("--job", nargs=2, metavar=("ROW", "SEED"), help=argparse.SUPPRESS)
    add_number(parser, "--seeds", 3, "seeds 1 to this many for each row")
    add_number(parser, "--updates", 5000, "of each training")
    add_number(parser, "--tokens", 1024, "padded target tokens of an update")
    parser.add_argument("--lr-scale", type=float, default=0.5, help="factor on eq. 3's learning rate (default 0.5)")
    add_number(parser, "--vocab-size", 4000, "subwords")
    add_number(parser, "--processes", core_count(), "trainings at a time")
    parser.add_argument("--data", type=Path, default="data/multi30k", help="Multi30k's folder (default data/multi30k)")
    parser.add_argument("--directory", type=Path, default="runs/table3", help="for all runs (default runs/table3)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="default results/ beside this file")
    return parser.parse_args()


def rows_of(words: list[str]) -> list[str]:
    """Rows by name, with `PRE_NORM` or without, or by the letter of their group, in the order given, each once."""
    rows = []
    for word in words:
        group = [row for row in TABLE3_ROWS if word in tuple("ABCDE") and row[0] == word]
        group = [word] if word.removesuffix(PRE_NORM) in TABLE3_ROWS else group
        if not group:
            raise ConfigError(f"row must be one of {', '.join(TABLE3_ROWS)} or a group A to E, got {quote(word, 60)}")
        rows += [row for row in group if row not in rows]
    return rows


def class_scale(row: str, vocab_size: int) -> ModelConfig:
    """The model of a row, divided by `SCALE`; in pre-norm if its name says so."""
    model = ModelConfig.table3(row.removesuffix(PRE_NORM), vocab_size)
    scaled = {name: getattr(model, name) // divisor for name, divisor in SCALE.items()}
    return replace(model, **scaled, norm="pre" if row.endswith(PRE_NORM) else "post")


def settings_of(arguments: argparse.Namespace) -> dict:
    """What must be equal for two results to be comparable."""
    return {
        "data": "multi30k en-de",
        "scale": SCALE,
        "vocab_size": arguments.vocab_size,
        "updates": arguments.updates,
        "tokens": arguments.tokens,
        "warmup_steps": arguments.updates // 6,
        "lr_scale": arguments.lr_scale,
    }


def tokenizer_path(arguments: argparse.Namespace) -> Path:
    return arguments.directory / f"bpe.{arguments.vocab_size}"


def train_rows(rows: list[str], arguments: argparse.Namespace) -> None:
    """Train what is missing, row by row, with all seeds of a row."""
    check_settings(arguments.results, settings_of(arguments))
    for row in rows:
        config_of(row, 1, arguments)  # refuses wrong settings before any training begins
    arguments.directory.mkdir(parents=True, exist_ok=True)
    if not tokenizer_path(arguments).exists():
        multi30k_tokenizer(arguments.vocab_size, arguments.data).save(tokenizer_path(arguments))
    own = ("updates", "tokens", "lr-scale", "vocab-size", "data", "directory")
    options = [f"--{name}={getattr(arguments, name.replace('-', '_'))}" for name in own]
    command = [sys.executable, "-m", "examples.paper.table3", *options, "--job"]
    jobs = [
        Job(row, seed, [*command, row, str(seed)], arguments.directory / f"{row}-{seed}.log")
        for row in rows
        for seed in range(1, arguments.seeds + 1)
    ]
    run_sweep(jobs, arguments.results, arguments.processes)


def config_of(row: str, seed: int, arguments: argparse.Namespace) -> Config:
    data, settings = arguments.data, settings_of(arguments)
    return Config(
        model=class_scale(row, arguments.vocab_size),
        data=DataConfig(
            train_src=str(data / "train.en"),
            train_tgt=str(data / "train.de"),
            valid_src=str(data / "val.en"),
            valid_tgt=str(data / "val.de"),
            tokenizer=str(tokenizer_path(arguments)),
            src_tokens=arguments.tokens // 2 * 5 // 4,  # as in the Multi30k recipe: the target side fills up first
            tgt_tokens=arguments.tokens // 2,
        ),
        training=TrainingConfig(
            directory=str(arguments.directory / f"{row}-{seed}"),
            seed=seed,
            updates=arguments.updates,
            micro_batches=2,
            threads=1,
            warmup_steps=settings["warmup_steps"],
            lr_scale=settings["lr_scale"],
            validate_every=max(arguments.updates // 8, 1),
            save_every=100,
            keep_checkpoints=1,
        ),
    )


def train_and_score(row: str, seed: int, arguments: argparse.Namespace) -> dict:
    """Train one row with one seed and measure it on the development set."""
    config = config_of(row, seed, arguments)
    trainer = Trainer(config, progress=False)
    run_to_end(trainer)
    metrics = read_metrics(trainer.folder.metrics)
    valid = [line for line in metrics if line["kind"] == "valid"][-1]
    model, tokenizer = load_checkpoint(trainer.folder.paths()[-1]).build(config.execution.device)
    sources, references = read_lines(config.data.valid_src), read_lines(config.data.valid_tgt)
    cost = trainer.cost()
    bleu = corpus_bleu(translate_lines(model, tokenizer, sources, config.translation), references)
    return {
        "name": row,
        "seed": seed,
        "nll": valid["nll"],
        "ppl": valid["ppl"],
        "bleu": bleu.score,
        "signature": bleu.signature,
        "parameters": parameter_count(trainer.config.model),
        "flops": cost.formula,
        "flops_paper": cost.paper,
        "seconds": cost.seconds,
        "settings": settings_of(arguments),
        "model": asdict(trainer.config.model),
        "machine": machine_facts(),
    }


def parameter_lines() -> list[str]:
    """Each row's parameters beside the paper's, and the vocabularies for which the formula rounds to the paper's."""
    lines = [f"{'row':5}{'V 37,000':>12}{'paper':>8}  vocabularies that give the paper's number"]
    for row, (_, _, millions) in PAPER.items():
        model = ModelConfig.table3(row)
        count = parameter_count(model)
        if millions is None:
            lines.append(f"{row:5}{count / 1e6:10.2f} M")
            continue
        without = count - model.vocab_size * model.d_model
        bounds = [((millions + half) * 1e6 - without) / model.d_model for half in (-0.5, 0.5)]
        low, high = math.ceil(bounds[0]), math.floor(bounds[1])
        lines.append(f"{row:5}{count / 1e6:10.2f} M{millions:6} M  {low:,} to {high:,}")
    return lines


def report(results: Path) -> None:
    """Write the table beside the results and, once base is there for comparison, the picture."""
    measured = read_results(results)
    if not measured:
        raise ConfigError(f"{results}: must hold results, got none; train some with --run")
    unknown = {result["name"].removesuffix(PRE_NORM) for result in measured} - set(PAPER)
    if unknown:
        raise DataError(f"{results}: must hold rows of Table 3, got {quote(min(unknown), 60)}; delete its lines")
    with showing(results):
        has_base = {"base"} < {result["name"] for result in measured}
        text, figure = markdown(measured, PAPER), draw_deltas(measured, PAPER) if has_base else None
    write_report(results, text, figure)


if __name__ == "__main__":
    sys.exit(main())
