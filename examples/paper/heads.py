"""Do a model's heads do what the paper says of Figures 3 to 5? A search over layers and heads, with a score for each.

    python -m examples.paper.heads --checkpoint runs/multi30k/average.npz --src data/multi30k/test_2016_flickr.en \\
        data/multi30k/val.en --tgt data/multi30k/test_2016_flickr.de data/multi30k/val.de --gallery gallery

A score is the mean share of attention that words of a kind, such as "his", give to the word that the pattern asks for,
such as the man before it. Half of the sentences choose the head and the other half measure it, so that the best of many
heads is not best by luck. The score is compared with the share that the same head gives to any word at the same
distance, and with the score after shuffling the keys of every row. A head is found if its score is more than twice the
mean of 200 shuffles, more than each of them, and significantly more than at the same distance, unless distance is what
the pattern asks for. ``--gallery`` writes heads.md and, for each head that was found, a picture of the sentence in
which it shows its pattern best.

The patterns are for English and need no parser: closed word lists take its place, and miss much. The aligned word needs
``--tgt``; its lexicon is built from the same text, from words that occur in the same sentence pairs (Dice coefficient).
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples import report_errors
from examples.paper.heads_patterns import OF_DISTANCE, PATTERNS
from examples.paper.heads_report import ALIGNED, caption, introduction, table, training_share
from examples.paper.heads_score import LONGEST, Distances, Found, Score, score
from examples.report import machine_facts
from minitransformer.checkpoints import load_checkpoint
from minitransformer.cli.main import Parser
from minitransformer.config import EOS
from minitransformer.errors import ConfigError, DataError
from minitransformer.figures import draw_attention_lines, picture_bytes
from minitransformer.files import write_text
from minitransformer.generation import hypothesis_attention
from minitransformer.models import Model
from minitransformer.text import PieceTokenizer, Tokenizer, read_lines


def split(tokenizer: Tokenizer, line: str) -> tuple[list[str], np.ndarray]:
    """The words of a line, in lower case, and EOS; which word each of its tokens and EOS belongs to."""
    words = tokenizer.pretokenizer.split(line)
    owners = np.repeat(np.arange(len(words) + 1), [*(len(tokenizer.encode(word)) for word in words), 1])
    return [*(word.strip().lower() for word in words), "<eos>"], owners


def by_words(weights: np.ndarray, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Weights between words, (L, H, Wq, Wk): the mean of a word's own tokens, the sum of those it attends to."""
    rows = queries == np.arange(queries[-1] + 1)[:, None]  # (Wq, Tq)
    columns = keys[:, None] == np.arange(keys[-1] + 1)  # (Tk, Wk)
    return (rows / rows.sum(axis=1, keepdims=True) @ weights @ columns).astype(np.float32)


def lexicon(pairs: Sequence[tuple[list[str], list[str]]]) -> set[tuple[str, str]]:
    """(target word, source word) that occur together at least twice, with a Dice coefficient of at least 1/2."""
    sources, targets, both = Counter(), Counter(), Counter()
    for src, tgt in pairs:
        sources.update(set(src))
        targets.update(set(tgt))
        both.update((t, s) for t in set(tgt) for s in set(src))
    return {(t, s) for (t, s), n in both.items() if n > 1 and 4 * n >= targets[t] + sources[s] and t.isalpha()}


def collect(
    model: Model, tokenizer: Tokenizer, src: Sequence[str], tgt: Sequence[str]
) -> tuple[dict[str, list[Found]], dict[str, Distances]]:
    """Where each pattern applies in the sentences, and the attention by distance with which it is compared.

    Without a target only the encoder is searched.
    """
    found, split_src = defaultdict(list), [split(tokenizer, line) for line in src]
    encoder, decoder = Distances(), Distances()
    split_tgt = [split(tokenizer, line) for line in tgt] or [split(tokenizer, "")] * len(src)
    known = lexicon([(s[:-1], t[:-1]) for (s, _), (t, _) in zip(split_src, split_tgt, strict=True)])
    for number, ((words, keys), (targets, queries)) in enumerate(zip(split_src, split_tgt, strict=True)):
        too_long = max(len(keys), len(queries)) > (model.max_positions or np.inf)
        if not 3 <= len(words) <= LONGEST or len(targets) > LONGEST or too_long:
            continue
        maps = hypothesis_attention(model, tokenizer.encode(src[number]), tokenizer.encode(tgt[number]) if tgt else [])
        weights = by_words(stacked(maps, "encoder", "self_attention"), keys, keys)
        encoder.add(weights[:, :, :-1, :-1])  # of words, without <eos>
        for name, pattern in PATTERNS.items():
            found[name] += [Found(number, i, j, weights[:, :, i]) for i, j in pattern(words[:-1])]
        if tgt:
            weights = by_words(stacked(maps, "decoder", "cross_attention"), queries, keys)
            decoder.add(weights[:, :, :-1, :-1])
            for i, target in enumerate(targets):
                aligned = [j for j, word in enumerate(words) if (target, word) in known]
                if len(aligned) == 1:
                    found[ALIGNED].append(Found(number, i, aligned[0], weights[:, :, i]))
    compared = {name: encoder for name in PATTERNS if name not in OF_DISTANCE} | {ALIGNED: decoder}
    return found, compared


def stacked(maps: dict[str, np.ndarray], stack: str, kind: str) -> np.ndarray:
    """The weights of all layers, (L, H, Tq, Tk); ConfigError if the model has no such attention in every layer."""
    layers = [weights for name, weights in maps.items() if name.startswith(stack) and name.endswith(kind)]
    if not layers:
        raise ConfigError(f"the model must have {kind} in its {stack}, got {', '.join(maps)}")
    return np.stack(layers)


def draw(model: Model, tokenizer: Tokenizer, src: str, tgt: str, name: str, best: Score) -> bytes:
    """The example of a head as an SVG: the lines of its word, as in Figures 3 to 5."""
    source, target, is_aligned = tokenizer.encode(src), tokenizer.encode(tgt), name == ALIGNED
    kind = "decoder.{}.cross_attention" if is_aligned else "encoder.{}.self_attention"
    weights = hypothesis_attention(model, source, target)[kind.format(best.layer - 1)]
    keys, queries = tokenizer.subwords([*source, EOS]), tokenizer.subwords([*(target if is_aligned else source), EOS])
    _, owners = split(tokenizer, tgt if is_aligned else src)
    labels = {"title": f"{name}: layer {best.layer}", "key_label": "source subword"}
    labels["query_label"] = "target subword" if is_aligned else "source subword"
    chosen, shown = np.flatnonzero(np.isin(owners, [each.query for each in best.example])), np.zeros_like(weights)
    shown[:, chosen] = weights[:, chosen]  # weights of zero have no line
    return picture_bytes(draw_attention_lines(shown, keys, queries, heads=[best.head], **labels), "svg")


def read(paths: Sequence[Path]) -> list[str]:
    return [line for path in paths for line in read_lines(path)]


@report_errors
def main() -> int:
    parser = Parser(prog="python -m examples.paper.heads", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True, help="of a Transformer")
    parser.add_argument("--src", type=Path, nargs="+", required=True, help="English sentences, one a line")
    parser.add_argument(
        "--tgt", type=Path, nargs="+", default=[], help="their translations (default: only the encoder is searched)"
    )
    parser.add_argument("--gallery", type=Path, help="folder to write the table and pictures to (default: none)")
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.checkpoint, with_optimizer=False)
    model, tokenizer = checkpoint.build()
    if tokenizer is None or isinstance(tokenizer, PieceTokenizer):
        got = "pieces, which have no words" if tokenizer else "a model trained on token ids only"
        raise ConfigError(f"{arguments.checkpoint} must contain a tokenizer of `bpe train`, got {got}")
    src, tgt = read(arguments.src), read(arguments.tgt)
    if tgt and len(src) != len(tgt):
        raise DataError(f"--src and --tgt must have the same number of lines, got {len(src)} and {len(tgt)}")
    if arguments.gallery:
        arguments.gallery.mkdir(parents=True, exist_ok=True)
    (found, compared), rng = collect(model, tokenizer, src, tgt), np.random.default_rng(1)
    names = [*PATTERNS, *([ALIGNED] if tgt else [])]
    scores = {name: score(found[name], rng, compared.get(name)) for name in names}
    print(table(scores), end="")
    if arguments.gallery:
        text = training_share([(path, len(read([path]))) for path in arguments.src], checkpoint.config.data.train_src)
        page = introduction(scores, sys.argv[1:], text, machine_facts()) + table(scores)
        for name, best in scores.items():
            if best and best.is_found:
                number = best.example[0].sentence
                picture = draw(model, tokenizer, src[number], tgt[number] if tgt else "", name, best)
                file = f"{re.sub('[^a-z0-9]+', '_', name)}.svg"
                write_text(arguments.gallery / file, picture.decode())
                page += caption(name, best, file, src[number], tgt[number] if name == ALIGNED else "")
        write_text(arguments.gallery / "heads.md", page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
