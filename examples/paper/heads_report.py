"""What the search for heads writes to heads.md: one sentence, the command, and a table."""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.common.tables import markdown_head, markdown_row

if TYPE_CHECKING:
    from heads import Score


def introduction(scores: Mapping[str, "Score | None"], options: Sequence[str], facts: Mapping[str, str]) -> str:
    """Title, one sentence on what agrees with the paper, command and machine.

    options: of the command   facts: `machine_facts`
    """
    names = {True: [], False: [], None: []}
    for name, best in scores.items():
        names[best and best.is_found].append(name)
    verdicts = {
        True: "As in the paper's own model there are heads that do what they should",
        False: "No head was found, perhaps because model and text are small",
        None: "The text has too few words to tell",
    }
    sentences = [f"{verdicts[key]}: {'; '.join(names[key])}." for key in verdicts if names[key]]
    machine = f"{facts['processor']}, Python {facts['Python']}, NumPy {facts['NumPy']}, commit {facts['commit']}."
    command = f"`python examples/paper/heads.py {shlex.join(options)}`"
    return "\n\n".join(["# What heads do", " ".join(sentences), command, machine]) + "\n\n"


def table(scores: Mapping[str, "Score | None"]) -> str:
    """The best head of each pattern, as Markdown."""
    lines = markdown_head(["pattern", "layer", "head", "words", "share", "shuffled", "found"])
    for name, best in scores.items():
        if best is None:
            lines.append(markdown_row([name, *[""] * 5, "too few words in half of the sentences"]))
        else:
            verdict = "yes" if best.is_found else "no head does this"
            place, shares = (best.layer, best.head, best.n), (best.share, best.shuffled)
            lines.append(markdown_row([name, *map(str, place), *(f"{share:.3f}" for share in shares), verdict]))
    return "\n".join(lines) + "\n"
