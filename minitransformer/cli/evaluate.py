"""``evaluate``: translate a test set and score it with sacreBLEU."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from minitransformer.cli.common import add_model_options, add_search_options, open_model, writable_file


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("evaluate", help="translate a test set and print its sacreBLEU score")
    add_model_options(parser)
    parser.add_argument("--src", type=Path, required=True, metavar="FILE", help="source text, one sentence a line")
    parser.add_argument("--ref", type=Path, required=True, metavar="FILE", help="reference translations, line by line")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to save the translations (default: nowhere)")
    parser.add_argument("--json", action="store_true", help="print one JSON object (default: text)")
    add_search_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from minitransformer.files import write_atomically
    from minitransformer.text import read_parallel
    from minitransformer.translation import corpus_bleu, require_sacrebleu, translate_lines

    if arguments.output:
        writable_file(arguments.output, [arguments.src, arguments.ref, arguments.checkpoint])
    sources, references = read_parallel(arguments.src, arguments.ref)
    require_sacrebleu()
    model, tokenizer, search = open_model(arguments)
    start = time.perf_counter()
    hypotheses = translate_lines(model, tokenizer, sources, search, progress=sys.stderr.isatty())
    seconds = time.perf_counter() - start
    if arguments.output:
        text = "".join(f"{line}\n" for line in hypotheses)
        write_atomically(arguments.output, lambda file: file.write(text.encode("utf-8")))
    bleu = corpus_bleu(hypotheses, references)
    tokens = sum(len(ids) for ids in tokenizer.encode_lines(hypotheses))
    results = {
        "bleu": bleu.score,
        "signature": bleu.signature,
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
    print(f"BLEU {bleu.score:.2f}  {bleu.signature}")
    print(f"{len(sources)} sentences, beam {search.beam_size}, alpha {search.alpha:g}")
    print(f"{tokens} target tokens in {seconds:.1f} s, {tokens / seconds:.0f} tokens/s")
