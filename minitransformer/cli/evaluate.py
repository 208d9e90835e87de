"""``evaluate``: translate a test set and score it: sacreBLEU, the paper's own BLEU, and an ablation."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.common import open_model, writable_file
from minitransformer.cli.options import add_model_options, add_search_options, at_least_one, search_options
from minitransformer.config import TranslationConfig
from minitransformer.errors import CheckpointError, ConfigError, DataError
from minitransformer.files import write_text

if TYPE_CHECKING:
    from minitransformer.models import Model
    from minitransformer.text import Tokenizer

Score = Callable[[list[str]], dict]
"""From translations to ``bleu`` and ``signature``; with --language to ``paper_bleu`` and ``paper_signature`` too; with
--normalize-punctuation to these again, with ``normalized_`` before each name."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("evaluate", help="translate a test set and print its BLEU score")
    add_model_options(parser, also="; with --ablation: the training.directory of a run")
    parser.add_argument("--src", type=Path, required=True, metavar="FILE", help="source text, one sentence a line")
    parser.add_argument("--ref", type=Path, required=True, metavar="FILE", help="reference translations, line by line")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to save the translations (default: nowhere)")
    parser.add_argument("--json", action="store_true", help="print one JSON object (default: text)")
    parser.add_argument(
        "--language",
        choices=("de", "fr", "en"),
        help="language of the references: print the paper's own BLEU too, of Moses' words and, in German, split "
        "compounds (default: sacreBLEU alone)",
    )
    parser.add_argument(
        "--normalize-punctuation",
        action="store_true",
        help="print BLEU also with the quotation marks, dashes and so on of both sides made those of ASCII, by the "
        "rules of --language (default: as they are alone)",
    )
    parser.add_argument(
        "--ablation",
        action="store_true",
        help="print what averaging, the beam and the length penalty each add (default: one score)",
    )
    parser.add_argument(
        "--last", type=at_least_one, metavar="K", help="checkpoints in the mean of --ablation (default: 5)"
    )
    add_search_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from minitransformer.evaluation import require_moses, require_sacrebleu
    from minitransformer.text import read_parallel
    from minitransformer.text.punctuation import normalize_punctuation

    language = arguments.language
    if arguments.last is not None and not arguments.ablation:
        raise ConfigError("--last must stand with --ablation: it is the number of checkpoints in its mean")
    if arguments.normalize_punctuation and not language:
        raise ConfigError("--normalize-punctuation must stand with --language, by whose rules it normalizes")
    if arguments.output:
        writable_file(arguments.output, [arguments.src, arguments.ref, arguments.checkpoint])
    sources, references = read_parallel(arguments.src, arguments.ref)
    n_words = sum(len(line.split()) for line in references)
    if not n_words:
        raise DataError(f"{arguments.ref}: the references must have at least one word, got none")
    require_sacrebleu()
    if language:
        require_moses()

    def score(hypotheses: list[str]) -> dict:
        scores = _bleu(hypotheses, references, language)
        if arguments.normalize_punctuation:
            sides = [[normalize_punctuation(line, language) for line in side] for side in (hypotheses, references)]
            scores |= {f"normalized_{name}": value for name, value in _bleu(*sides, language).items()}
        return scores

    if arguments.ablation:
        _ablation(arguments, sources, score, n_words)
    else:
        _one_score(arguments, sources, score)


def _bleu(hypotheses: list[str], references: list[str], language: str | None) -> dict:
    from minitransformer.evaluation import corpus_bleu, paper_bleu

    bleu = corpus_bleu(hypotheses, references)
    scores = {"bleu": bleu.score, "signature": bleu.signature}
    if language:
        paper = paper_bleu(hypotheses, references, language)
        scores |= {"paper_bleu": paper.score, "paper_signature": paper.signature}
    return scores


def _one_score(arguments: argparse.Namespace, sources: list[str], score: Score) -> None:
    model, tokenizer, search = open_model(arguments)
    hypotheses, seconds = _translate(model, tokenizer, sources, search)
    _save(arguments.output, hypotheses)
    tokens = sum(len(ids) for ids in tokenizer.encode_lines(hypotheses))
    results = score(hypotheses) | {
        "sentences": len(sources),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "beam_size": search.beam_size,
        "alpha": search.alpha,
    }
    if arguments.json:
        print(json.dumps(results))
        return
    for kind, note in (("", ""), ("paper_", ", as in the paper's Table 2")):
        for prefix, how in (("", ""), ("normalized_", ", punctuation of both sides normalized")):
            if (name := f"{prefix}{kind}bleu") in results:
                print(f"BLEU {results[name]:.2f}  {results[f'{prefix}{kind}signature']}{note}{how}")
    print(f"{len(sources)} sentences, beam {search.beam_size}, alpha {search.alpha:g}")
    print(f"{tokens} target tokens in {seconds:.1f} s, {tokens / seconds:.0f} tokens/s")


def _ablation(arguments: argparse.Namespace, sources: list[str], score: Score, n_words: int) -> None:
    """Scores of the last checkpoint with greedy search; then, each in addition to those before: the mean of the newest
    checkpoints; beam search; the length penalty  [sec. 6.1].   n_words: words of the references, between spaces"""
    from minitransformer.checkpoints import average_checkpoints, newest_checkpoints

    last = 5 if arguments.last is None else arguments.last
    paths = newest_checkpoints(arguments.checkpoint, last)
    newest, mean = average_checkpoints(paths[-1:]), average_checkpoints(paths)
    search = mean.search(**search_options(arguments))
    greedy, rows = replace(search, beam_size=1, alpha=0.0), []
    for name, checkpoint, used in (
        ("last checkpoint", newest, greedy),
        (f"mean of the last {last}", mean, greedy),
        (f"beam of {search.beam_size}", mean, replace(search, alpha=0.0)),
        (f"length penalty {search.alpha:g}", mean, search),
    ):
        hypotheses, seconds = _translate(*checkpoint.build(arguments.device), sources, used)
        length = sum(len(line.split()) for line in hypotheses) / n_words
        row = {"name": name, **score(hypotheses), "length": length, "seconds": seconds}
        rows.append(row | {"beam_size": used.beam_size, "alpha": used.alpha})
    _save(arguments.output, hypotheses)
    if arguments.json:
        print(json.dumps({"directory": str(arguments.checkpoint), "sentences": len(sources), "ablation": rows}))
    else:
        _print_ablation(rows)


def _print_ablation(rows: list[dict]) -> None:
    print(f"{'':24}{'BLEU':>8}{'adds':>8}{'punct.':>8}{'paper':>8}{'length':>8}{'seconds':>9}")
    for before, row in zip([None, *rows], rows, strict=False):
        added = f"{row['bleu'] - before['bleu']:+.2f}" if before else ""
        also = "".join(f"{row[name]:8.2f}" if name in row else " " * 8 for name in ("normalized_bleu", "paper_bleu"))
        print(f"{row['name']:24}{row['bleu']:8.2f}{added:>8}{also}{row['length']:8.3f}{row['seconds']:9.1f}")
    print(f"BLEU: {rows[0]['signature']}")
    if "paper_bleu" in rows[0]:
        print(f"paper: {rows[0]['paper_signature']}")
    if "normalized_bleu" in rows[0]:
        print("punct.: BLEU with the punctuation of both sides normalized")
    print("length: words of the translations / words of the references")


def _translate(
    model: "Model", tokenizer: "Tokenizer | None", sources: list[str], search: TranslationConfig
) -> tuple[list[str], float]:
    """The translations, and the seconds that they took; CheckpointError without a tokenizer."""
    from minitransformer.generation import translate_lines

    if tokenizer is None:
        raise CheckpointError("the checkpoints must have a tokenizer, got a model that was trained on token ids alone")
    start = time.perf_counter()
    hypotheses = translate_lines(model, tokenizer, sources, search, progress=sys.stderr.isatty())
    return hypotheses, time.perf_counter() - start


def _save(output: Path | None, hypotheses: list[str]) -> None:
    if output:
        write_text(output, "".join(f"{line}\n" for line in hypotheses))
