"""BLEU against hours of training for pairs of different size: the figures in docs/what-to-expect.md.

``score`` translates the test set with some checkpoints of a run and adds a line for each, once, to
docs/what-to-expect.jsonl; ``draw`` draws all lines to docs/what-to-expect.png. Hours are updates times the seconds that
an update takes on a machine with nothing else to do: the clock of a busy machine says nothing.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from examples import report_errors
from examples.paper.program import complete_lines, showing
from examples.paper.sweep import append, opened_alone
from examples.report import machine_facts
from minitransformer.checkpoints import RunFolder, average_checkpoints, newest_checkpoints
from minitransformer.cli.main import Parser
from minitransformer.cli.options import at_least_one
from minitransformer.config import TOKENIZERS
from minitransformer.errors import ConfigError
from minitransformer.evaluation import corpus_bleu, corpus_chrf
from minitransformer.figures.canvas import new_figure, picture_bytes
from minitransformer.files import write_atomically
from minitransformer.generation import translate_lines
from minitransformer.pipeline import build_with_tokenizer
from minitransformer.text import read_parallel

DOCS = Path(__file__).parents[1] / "docs"
RESULTS, PICTURE = DOCS / "what-to-expect.jsonl", DOCS / "what-to-expect.png"


@report_errors
def main(argv: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    arguments.run(arguments)
    return 0


def build_parser() -> Parser:
    parser = Parser(prog="python -m examples.what_to_expect", description=__doc__)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    scoring = actions.add_parser("score", help="score checkpoints of a run on a test set")
    scoring.add_argument("directory", type=Path, metavar="RUN", help="training.directory of the run")
    scoring.add_argument("--name", required=True, help="name of the curve, such as 'English to German, 162,236 pairs'")
    for option, what in (("--src", "source"), ("--ref", "target")):
        scoring.add_argument(option, required=True, metavar="FILE", help=f"{what} side of the test set")
    scoring.add_argument(
        "--updates", type=at_least_one, nargs="+", required=True, metavar="U", help="checkpoints to score"
    )
    scoring.add_argument("--last", type=at_least_one, metavar="K", help="and the mean of the K newest (default: none)")
    scoring.add_argument("--seconds", type=float, required=True, metavar="S", help="seconds per update on one core")
    scoring.add_argument("--tokenize", choices=TOKENIZERS, default="13a", help="as for evaluate (default: 13a)")
    scoring.set_defaults(run=run_score)
    actions.add_parser("draw", help="draw all lines").set_defaults(run=run_draw)
    return parser


def run_score(arguments: argparse.Namespace) -> None:
    if not 0 < arguments.seconds < math.inf:
        raise ConfigError(f"--seconds must be above 0, got {arguments.seconds}")
    folder, facts = RunFolder(arguments.directory), machine_facts()
    chosen = [([folder.path_of(update)], "checkpoint") for update in arguments.updates]
    if arguments.last:
        chosen.append((newest_checkpoints(arguments.directory, arguments.last), f"mean of the last {arguments.last}"))
    sources, references = read_parallel(arguments.src, arguments.ref)
    with showing(RESULTS):
        known = {(line["name"], line["parameters"], line["update"]) for line in read()}
    for paths, kind in chosen:
        checkpoint = average_checkpoints(paths)
        if (arguments.name, kind, checkpoint.update) in known:
            print(f"{kind}, update {checkpoint.update}: is there already; delete its line to score it again")
            continue
        model, tokenizer = build_with_tokenizer(checkpoint, "cpu")
        hypotheses = translate_lines(model, tokenizer, sources, checkpoint.config.translation, progress=True)
        bleu, chrf = corpus_bleu(hypotheses, references, arguments.tokenize), corpus_chrf(hypotheses, references)
        result = {
            "name": arguments.name,
            "parameters": kind,
            "update": checkpoint.update,
            "seconds_per_update": arguments.seconds,
            "hours": round(checkpoint.update * arguments.seconds / 3600, 4),
            "bleu": round(bleu.score, 2),
            "chrf": round(chrf.score, 2),
            "signature": bleu.signature,
            "weights": model.parameters.data.size,
            "test": Path(arguments.src).parent.name,
            "seed": checkpoint.config.training.seed,
            "example": [sources[0], hypotheses[0], references[0]],
            "machine": facts,
        }
        print({key: result[key] for key in ("parameters", "update", "hours", "bleu", "chrf", "example")}, flush=True)
        with opened_alone(RESULTS) as file:
            append(file, result)


def run_draw(_: argparse.Namespace) -> None:
    with showing(RESULTS):
        picture = draw(read())
    write_atomically(PICTURE, lambda file: file.write(picture))


def read() -> list[dict]:
    return [json.loads(line) for line in complete_lines(RESULTS)]


def draw(results: list[dict]) -> bytes:
    """A curve for each name; a diamond is the mean of the last checkpoints."""
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    for number, name in enumerate(dict.fromkeys(result["name"] for result in results)):
        own = sorted((result for result in results if result["name"] == name), key=lambda result: result["hours"])
        single = [(60 * result["hours"], result["bleu"]) for result in own if result["parameters"] == "checkpoint"]
        means = [(60 * result["hours"], result["bleu"]) for result in own if result["parameters"] != "checkpoint"]
        axes.plot(*zip(*single, strict=True), "o-", color=f"C{number}", markersize=3.5, label=name)
        for minutes, bleu in means:
            axes.plot(minutes, bleu, "D", color=f"C{number}", markersize=6)
            label = {"textcoords": "offset points", "ha": "center", "color": f"C{number}"}
            axes.annotate(f"{bleu:.1f}", (minutes, bleu), (0, 7), **label)
    axes.set(
        xscale="log",
        xlabel="minutes of one core",
        ylabel="sacreBLEU of the test set",
        ylim=(0, 5 + max(result["bleu"] for result in results)),
    )
    ticks = [1, 2, 5, 10, 20, 60, 120, 240]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    return picture_bytes(figure)


if __name__ == "__main__":
    sys.exit(main())
