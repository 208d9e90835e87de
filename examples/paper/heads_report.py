"""What the search for heads writes to heads.md: what was found, the command, a table and pictures."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from examples.paper.heads_score import Score
from examples.report import markdown_table, page

ALIGNED = "target word to the aligned source word"
"""The only pattern of attention from the decoder to the encoder."""
EXPLAINED = (
    "share: the mean attention that words of the kind give to the wanted word, in the half of the sentences that did "
    "not choose the head. same distance: what this head gives to any word at that distance. shuffled: the share after "
    "shuffling the keys of every word. found: the share is more than twice the mean of 200 shuffles, more than each of "
    "them, and significantly more than at the same distance (t-test, significance level 5 %; not required of the two "
    "patterns that are a distance). Each picture shows the sentence in which the head shows its pattern best."
)


def introduction(
    scores: Mapping[str, Score | None], options: Sequence[str], text: str, facts: Mapping[str, str]
) -> str:
    """Title, what was found compared with the paper's Figures 3 to 5, text, command, machine, meaning of the columns.

    options: of the command   text: what `training_share` says   facts: `machine_facts`
    """
    names = {True: [], False: [], None: []}
    for name, best in scores.items():
        names[best and best.is_found].append(name)
    verdicts = {
        True: "Heads were found for",
        False: "None was found for",
        None: "There are too few examples to decide for",
    }
    sentences = [f"{verdicts[key]}: {'; '.join(names[key])}." for key in verdicts if names[key]]
    found = " ".join([*sentences, "Figures 3 and 4 of the paper show the distant word and the antecedent."])
    machine = f"{facts['processor']}, Python {facts['Python']}, NumPy {facts['NumPy']}, commit {facts['commit']}."
    command = f"`python -m examples.paper.heads {shlex.join(options)}`"
    return page("# What heads do", found, text, command, machine, EXPLAINED) + "\n"


def training_share(n_lines: Sequence[tuple[Path, int]], train_src: str) -> str:
    """One sentence: how much of the text the model was trained on, as far as its checkpoint says.

    n_lines: each file and its sentences   train_src: the path of the training text in the checkpoint
    """
    total = sum(n for _, n in n_lines)
    seen = sum(n for path, n in n_lines if train_src and path.resolve() == Path(train_src).resolve())
    if not seen:
        return f"None of the {total:,} sentences is from the training text that the checkpoint names."
    return f"The model was trained on {seen:,} of the {total:,} sentences ({seen / total:.0%})."


def table(scores: Mapping[str, Score | None]) -> str:
    """The best head of each pattern, as Markdown."""
    head = ["pattern", "attention", "layer", "head", "words", "share", "same distance", "shuffled", "found"]
    rows = []
    for name, best in scores.items():
        kind = "decoder to encoder" if name == ALIGNED else "encoder"
        if best is None:
            rows.append([name, kind, *[""] * 6, "too few examples"])
        else:
            shares = (best.share, best.same_distance, best.shuffled)
            texts = ["" if math.isnan(share) else f"{share:.3f}" for share in shares]
            whole = map(str, (best.layer, best.head, best.n))
            rows.append([name, kind, *whole, *texts, "yes" if best.is_found else "no"])
    return page(markdown_table(head, rows))


def caption(name: str, best: Score, file: str, src: str, tgt: str) -> str:
    """A picture with its sentence, as Markdown."""
    sentences = f"> {src.strip()}" + (f"\n> {tgt.strip()}" if tgt else "")
    return (
        f"\n## {name[0].upper()}{name[1:]}: layer {best.layer}, head {best.head}\n\n{sentences}\n\n![{name}]({file})\n"
    )
