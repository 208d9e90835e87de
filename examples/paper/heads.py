"""Do heads of a model do what the paper says of Figures 3 to 5? A search over layers and heads, with a score for each.

    python examples/paper/heads.py --checkpoint runs/multi30k/average.npz --src data/multi30k/test_2016_flickr.en \
        --tgt data/multi30k/test_2016_flickr.de --gallery gallery

A score is the mean share of attention that words of a kind, such as "his", give to the word that the pattern wants,
such as the man before it. Half of the sentences choose the head, the other half measure it, so that the best of many
heads is not best by luck. Beside it stands the same score with the keys of every row shuffled. A head is found if it
has twice that share and more than each of 200 shuffles. ``--gallery`` writes heads.md, and a picture of the sentence in
which each head that was found shows it best.

The patterns are of English and need no parser: closed lists of words stand for one, and miss much. The aligned word
needs ``--tgt``; its lexicon is made of the same text, of words that occur in the same pairs (Dice coefficient).
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minitransformer.checkpoints import load_model
from minitransformer.cli.options import at_least_one
from minitransformer.config import EOS
from minitransformer.errors import ConfigError, DataError, MiniTransformerError
from minitransformer.figures import draw_attention_lines, picture_bytes
from minitransformer.generation import hypothesis_attention
from minitransformer.models import Model
from minitransformer.text import Tokenizer
from minitransformer.text.corpus import stream_lines

SHUFFLES, FEWEST, LONGEST = 200, 10, 60
"""Shuffles of the baseline; words below which nothing is claimed; words of a sentence above which it is left out."""

FUNCTION_WORDS = set(
    "a an the this that these those some his her its their my your our and or but as while who which with without in "
    "on at by for from of to into onto over under near behind beside between through across around down up off out is "
    "are was were be been has have had do does did can will would not he she it they him them".split()
)
ANTECEDENTS = {
    "he him his himself": "man boy guy gentleman father son male king president minister",
    "she her hers herself": "woman girl lady mother daughter female queen",
    "they them their themselves": "people men women children boys girls kids couple players dogs workers friends",
    "it its itself": "dog cat bird horse animal car truck boat company country government law court bank city",
}
"""Pronouns and the nouns that may be meant; the nearest one before the pronoun is taken for its antecedent."""
DISTANT_PARTS = {
    r"pick(s|ed|ing)?|lift(s|ed|ing)?|hold(s|ing)?|held": "up out",
    r"put(s|ting)?|tak(e|es|ing)|took|turn(s|ed|ing)?|throw(s|ing)?|threw": "on off up down away out apart",
    r"mak(e|es|ing)|made": "difficult easier harder possible impossible clear sure better worse",
}
"""Verbs, as regular expressions, and the words that complete them further on, as "making ... more difficult"."""

Pairs = Iterator[tuple[int, int]]


def previous_word(words: Sequence[str]) -> Pairs:
    """Each word and the one before it."""
    yield from ((i, i - 1) for i in range(1, len(words)))


def next_word(words: Sequence[str]) -> Pairs:
    """Each word and the one after it."""
    yield from ((i, i + 1) for i in range(len(words) - 1))


def determiner_to_noun(words: Sequence[str]) -> Pairs:
    """A determiner and the last word before the next function word, if it is two to four words on."""
    for i, word in enumerate(words):
        if word in ("a", "an", "the"):
            j = i
            while j + 1 < len(words) and words[j + 1].isalpha() and not _ends_noun(words[j + 1]):
                j += 1
            if 2 <= j - i <= 4:
                yield i, j


def _ends_noun(word: str) -> bool:
    return word in FUNCTION_WORDS or word.endswith("ing")


def pronoun_to_antecedent(words: Sequence[str]) -> Pairs:
    """A pronoun and the nearest noun of `ANTECEDENTS` before it, two words away or more."""
    for pronouns, nouns in ANTECEDENTS.items():
        for i, word in enumerate(words):
            before = [j for j in range(i - 1) if words[j] in nouns.split()]
            if word in pronouns.split() and before:
                yield i, before[-1]


def verb_to_distant_part(words: Sequence[str]) -> Pairs:
    """A verb and the first word that may complete it, five words on or more."""
    for verbs, parts in DISTANT_PARTS.items():
        for i, word in enumerate(words):
            after = [j for j in range(i + 1, len(words)) if words[j] in parts.split()]
            if re.fullmatch(verbs, word) and after and after[0] - i >= 5:
                yield i, after[0]


PATTERNS = {
    "previous word": previous_word,
    "next word": next_word,
    "determiner to its noun, 2 to 4 words on": determiner_to_noun,
    "pronoun to its antecedent": pronoun_to_antecedent,
    "verb to the word that completes it, 5 words on or more": verb_to_distant_part,
}
ALIGNED = "target word to the aligned source word"


class Found(NamedTuple):
    """One word that a pattern applies to.

    weights: its attention to each source word, by layer and head, (L, H, W)   wanted: the word it should attend to
    """

    sentence: int
    query: int
    wanted: int
    weights: np.ndarray


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


def collect(model: Model, tokenizer: Tokenizer, src: Sequence[str], tgt: Sequence[str]) -> dict[str, list[Found]]:
    """Where each pattern applies in the sentences. Without a target only the encoder is searched."""
    found, split_src = defaultdict(list), [split(tokenizer, line) for line in src]
    split_tgt = [split(tokenizer, line) for line in tgt] or [split(tokenizer, "")] * len(src)
    known = lexicon([(s[:-1], t[:-1]) for (s, _), (t, _) in zip(split_src, split_tgt, strict=True)])
    for number, ((words, keys), (targets, queries)) in enumerate(zip(split_src, split_tgt, strict=True)):
        too_long = max(len(keys), len(queries)) > (model.max_positions or np.inf)
        if not 3 <= len(words) <= LONGEST or len(targets) > LONGEST or too_long:
            continue
        maps = hypothesis_attention(model, tokenizer.encode(src[number]), tokenizer.encode(tgt[number]) if tgt else [])
        weights = by_words(stacked(maps, "encoder", "self_attention"), keys, keys)
        for name, pattern in PATTERNS.items():
            found[name] += [Found(number, i, j, weights[:, :, i]) for i, j in pattern(words[:-1])]
        if tgt:
            weights = by_words(stacked(maps, "decoder", "cross_attention"), queries, keys)
            for i, target in enumerate(targets):
                aligned = [j for j, word in enumerate(words) if (target, word) in known]
                if len(aligned) == 1:
                    found[ALIGNED].append(Found(number, i, aligned[0], weights[:, :, i]))
    return found


def stacked(maps: dict[str, np.ndarray], stack: str, kind: str) -> np.ndarray:
    """The weights of all layers, (L, H, Tq, Tk); ConfigError if the model has no such attention in every layer."""
    layers = [weights for name, weights in maps.items() if name.startswith(stack) and name.endswith(kind)]
    if not layers:
        raise ConfigError(f"the model must have {kind} in its {stack}, got {', '.join(maps)}")
    return np.stack(layers)


class Score(NamedTuple):
    """The best head of a pattern, counted from 1, and what it gives to the wanted words of ``n`` others."""

    layer: int
    head: int
    n: int
    share: float
    shuffled: float
    is_found: bool
    example: Found


def score(found: Sequence[Found], rng: np.random.Generator) -> Score | None:
    """Choose the head by the sentences of even number, measure it by the odd ones; None if there are too few."""
    choosing, measuring = ([each for each in found if each.sentence % 2 == odd] for odd in (0, 1))
    if min(len(choosing), len(measuring)) < FEWEST:
        return None
    shares = np.mean([each.weights[:, :, each.wanted] for each in choosing], axis=0)  # (L, H)
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    own = [each.weights[layer, head] for each in measuring]
    share = np.mean([row[each.wanted] for row, each in zip(own, measuring, strict=True)])
    lengths = np.array([len(row) for row in own])
    drawn = np.cumsum(lengths) - 1 - (rng.random((SHUFFLES, len(own))) * lengths).astype(int)
    shuffled = np.concatenate(own)[drawn].mean(axis=1)  # (SHUFFLES,)
    is_found = share > shuffled.max() and share > 2 * shuffled.mean()
    example = max(measuring, key=lambda each: each.weights[layer, head, each.wanted])
    return Score(layer + 1, head + 1, len(measuring), float(share), float(shuffled.mean()), bool(is_found), example)


def report(scores: dict[str, Score | None]) -> str:
    """The table as Markdown."""
    lines = ["| pattern | layer | head | words | share | shuffled | found |", "|---|---|---|---|---|---|---|"]
    for name, best in scores.items():
        if best is None:
            lines.append(f"| {name} | | | | | | fewer than {FEWEST} words in half of the sentences |")
        else:
            verdict = "yes" if best.is_found else "no head does this"
            cells = (best.layer, best.head, best.n, f"{best.share:.3f}", f"{best.shuffled:.3f}", verdict)
            lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def draw(model: Model, tokenizer: Tokenizer, src: str, tgt: str, name: str, best: Score) -> bytes:
    """The example of a head as an SVG: the lines of its word, as in Figures 3 to 5."""
    source, target, is_aligned = tokenizer.encode(src), tokenizer.encode(tgt), name == ALIGNED
    kind = "decoder.{}.cross_attention" if is_aligned else "encoder.{}.self_attention"
    weights = hypothesis_attention(model, source, target)[kind.format(best.layer - 1)]
    keys, queries = tokenizer.subwords([*source, EOS]), tokenizer.subwords([*(target if is_aligned else source), EOS])
    _, owners = split(tokenizer, tgt if is_aligned else src)
    labels = {"title": f"{name}: layer {best.layer}", "key_label": "source subword"}
    labels["query_label"] = "target subword" if is_aligned else "source subword"
    chosen = (np.flatnonzero(owners == best.example.query) + 1).tolist()
    return picture_bytes(
        draw_attention_lines(weights, keys, queries, heads=[best.head], queries=chosen, **labels), "svg"
    )


def read(path: Path | None, count: int) -> list[str]:
    return list(islice(stream_lines(path), count)) if path else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="of a Transformer")
    parser.add_argument("--src", type=Path, required=True, help="English sentences, one a line")
    parser.add_argument("--tgt", type=Path, help="their translations (default: only the encoder is searched)")
    parser.add_argument("--sentences", type=at_least_one, default=1000, help="read from the files (default 1000)")
    parser.add_argument("--gallery", type=Path, help="folder to write the table and pictures to (default: none)")
    arguments = parser.parse_args()
    model, tokenizer = load_model(arguments.checkpoint)
    if tokenizer is None:
        raise ConfigError(f"{arguments.checkpoint} must contain a tokenizer, got a model trained on token ids only")
    src, tgt = (read(path, arguments.sentences) for path in (arguments.src, arguments.tgt))
    if tgt and len(src) != len(tgt):
        raise DataError(f"--src and --tgt must have the same number of lines, got {len(src)} and {len(tgt)}")
    found, rng = collect(model, tokenizer, src, tgt), np.random.default_rng(1)
    scores = {name: score(found[name], rng) for name in [*PATTERNS, *([ALIGNED] if tgt else [])]}
    print(report(scores), end="")
    if arguments.gallery:
        arguments.gallery.mkdir(parents=True, exist_ok=True)
        (arguments.gallery / "heads.md").write_text(report(scores), encoding="utf-8")
        for name, best in scores.items():
            if best and best.is_found:
                number = best.example.sentence
                picture = draw(model, tokenizer, src[number], tgt[number] if tgt else "", name, best)
                (arguments.gallery / f"{re.sub('[^a-z0-9]+', '_', name)}.svg").write_bytes(picture)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MiniTransformerError, OSError) as error:
        print(f"heads: {error}", file=sys.stderr)
        sys.exit(2)
