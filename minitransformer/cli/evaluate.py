"""``evaluate``: translate a test set and score it: sacreBLEU, chrF, the paper's own BLEU, and an ablation."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minitransformer.cli.common import open_model, writable_file
from minitransformer.cli.options import add_model_options, add_search_options, at_least_one, search_settings
from minitransformer.config import TOKENIZERS, TranslationConfig
from minitransformer.errors import ConfigError, DataError
from minitransformer.files import write_text

if TYPE_CHECKING:
    from minitransformer.models import Model
    from minitransformer.text import Tokenizer


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("evaluate", help="translate a test set and print BLEU and chrF")
    add_model_options(parser, also="; with --ablation: the training.directory of a run")
    parser.add_argument("--src", type=Path, required=True, metavar="FILE", help="source text, one sentence a line")
    parser.add_argument("--ref", type=Path, required=True, metavar="FILE", help="reference translations, line by line")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to save the translations (default: nowhere)")
    parser.add_argument("--json", action="store_true", help="print one JSON object (default: text)")
    _add_scores(parser)
    shown = "print what averaging, the beam and the length penalty each add (default: one score)"
    parser.add_argument("--ablation", action="store_true", help=shown)
    shown = "number of checkpoints that --ablation averages (default: 5)"
    parser.add_argument("--last", type=at_least_one, metavar="K", help=shown)
    add_search_options(parser)
    parser.set_defaults(run=run)


def _add_scores(parser: argparse.ArgumentParser) -> None:
    shown = "sacreBLEU's tokenizer; for Chinese, Japanese and Korean, the language's own (default: 13a)"
    parser.add_argument("--tokenize", choices=TOKENIZERS, default="13a", help=shown)
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="translations of another system, line by line: print the p-value of the difference, by a paired bootstrap "
        "(default: one system alone)",
    )
    parser.add_argument(
        "--language",
        choices=("de", "fr", "en"),
        help="language of the references: also print the paper's own BLEU, with Moses' words and, in German, split "
        "compounds (default: sacreBLEU alone)",
    )
    parser.add_argument(
        "--normalize-punctuation",
        action="store_true",
        help="also print BLEU with the quotation marks, dashes and so on of both sides converted to ASCII, by the "
        "rules of --language (default: only as they are)",
    )


def run(arguments: argparse.Namespace) -> None:
    from minitransformer.checkpoints import RunFolder
    from minitransformer.evaluation import bleu_metric, paired_bootstrap, require_moses
    from minitransformer.text import read_parallel

    if arguments.last is not None and not arguments.ablation:
        raise ConfigError("--last must be used with --ablation: it is the number of checkpoints in its mean")
    if arguments.normalize_punctuation and not arguments.language:
        raise ConfigError("--normalize-punctuation must be used with --language, by whose rules it normalizes")
    if arguments.compare and arguments.ablation:
        raise ConfigError("--compare must be used without --ablation, which has several systems of its own")
    if arguments.output:
        models = [arguments.checkpoint, *RunFolder(arguments.checkpoint).paths()]
        writable_file(arguments.output, [arguments.src, arguments.ref, arguments.compare or arguments.ref, *models])
    sources, references = read_parallel(arguments.src, arguments.ref)
    if not _count_words(references):
        raise DataError(f"{arguments.ref}: the references must have at least one word, got none")
    others = read_parallel(arguments.compare, arguments.ref)[0] if arguments.compare else []
    bleu_metric(arguments.tokenize)
    if arguments.language:
        require_moses()
    rows = []
    for name, *searched in _ablation(arguments) if arguments.ablation else [("", *open_model(arguments))]:
        hypotheses, figures = _translate(sources, *searched)
        scores = _scores(hypotheses, references, arguments)
        if others:
            scores["compared"] = paired_bootstrap(hypotheses, others, references, arguments.tokenize)
        length = _count_words(hypotheses) / _count_words(references)
        rows.append({"name": name, **scores, "length": length, "sentences": len(sources), **figures})
    if arguments.json:
        print(json.dumps({"directory": str(arguments.checkpoint), "ablation": rows} if arguments.ablation else rows[0]))
    elif arguments.ablation:
        _print_ablation(rows)
    else:
        _print_scores(rows[0])
    if arguments.output:  # last: a full disk does not lose the scores
        write_text(arguments.output, "".join(f"{line}\n" for line in hypotheses))


def _count_words(lines: list[str]) -> int:
    return sum(len(line.split()) for line in lines)


def _translate(
    sources: list[str], model: "Model", tokenizer: "Tokenizer", search: TranslationConfig
) -> tuple[list[str], dict]:
    """The translations, and the time they took."""
    from minitransformer.generation import translate_lines

    start = time.perf_counter()
    hypotheses = translate_lines(model, tokenizer, sources, search, progress=sys.stderr.isatty())
    seconds = time.perf_counter() - start
    tokens = sum(len(ids) for ids in tokenizer.target.encode_lines(hypotheses))
    speed = {"tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / seconds}
    return hypotheses, speed | {"beam_size": search.beam_size, "alpha": search.alpha}


def _scores(hypotheses: list[str], references: list[str], arguments: argparse.Namespace) -> dict:
    """``bleu`` and ``signature``, ``chrf`` and ``chrf_signature``; with --language ``paper_bleu`` and
    ``paper_signature``; with --normalize-punctuation also the BLEU scores of text with normalized punctuation, with
    ``normalized_`` before each name."""
    from minitransformer.evaluation import corpus_bleu, corpus_chrf, paper_bleu
    from minitransformer.text.punctuation import normalize_punctuation

    scores, texts, language = {}, {"": (hypotheses, references)}, arguments.language
    if arguments.normalize_punctuation:
        texts["normalized_"] = [[normalize_punctuation(line, language) for line in side] for side in texts[""]]
    for prefix, sides in texts.items():
        bleu = corpus_bleu(*sides, arguments.tokenize)
        scores |= {f"{prefix}bleu": bleu.score, f"{prefix}signature": bleu.signature}
        if language:
            paper = paper_bleu(*sides, language)
            scores |= {f"{prefix}paper_bleu": paper.score, f"{prefix}paper_signature": paper.signature}
    chrf = corpus_chrf(hypotheses, references)
    return scores | {"chrf": chrf.score, "chrf_signature": chrf.signature}


def _ablation(arguments: argparse.Namespace) -> "Iterator[tuple[str, Model, Tokenizer, TranslationConfig]]":
    """The last checkpoint with greedy search; then, each in addition to those before: the mean of the newest
    checkpoints; beam search; the length penalty  [sec. 6.1]."""
    from minitransformer.checkpoints import average_checkpoints, newest_checkpoints
    from minitransformer.pipeline import build_with_tokenizer

    last = 5 if arguments.last is None else arguments.last
    paths = newest_checkpoints(arguments.checkpoint, last)
    newest, mean = average_checkpoints(paths[-1:]), average_checkpoints(paths)
    search = search_settings(mean.config, arguments)
    greedy = replace(search, beam_size=1, alpha=0.0)
    yield "last checkpoint", *build_with_tokenizer(newest, arguments.device), greedy
    for name, used in (
        (f"mean of the last {last}", greedy),
        (f"beam of {search.beam_size}", replace(search, alpha=0.0)),
        (f"length penalty {search.alpha:g}", search),
    ):
        yield name, *build_with_tokenizer(mean, arguments.device), used


def _print_scores(row: dict) -> None:
    for kind, note in (("", ""), ("paper_", ", as in the paper's Table 2")):
        for prefix, how in (("", ""), ("normalized_", ", punctuation of both sides normalized")):
            if (name := f"{prefix}{kind}bleu") in row:
                print(f"BLEU {row[name]:.2f}  {row[f'{prefix}{kind}signature']}{note}{how}")
    print(f"chrF {row['chrf']:.2f}  {row['chrf_signature']}")
    for name, title in (("bleu", "BLEU"), ("chrf", "chrF")) if "compared" in row else ():
        this = row["compared"][name]
        print(f"{title} {this['score']:.2f} against {this['other']:.2f}: p = {this['p']:.3f}, paired bootstrap")
    print(f"{row['sentences']} sentences, beam {row['beam_size']}, alpha {row['alpha']:g}")
    print(f"{row['tokens']} target tokens in {row['seconds']:.1f} s, {row['tokens_per_second']:.0f} tokens/s")


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
