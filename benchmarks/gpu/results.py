"""The results of the GPU benchmark: a file for each commit and card, saved whole after every part."""

import json
import re
from pathlib import Path

from examples.report import facts_list, markdown_table, page
from minitransformer.files import write_text

COLUMNS = ("ms", "lowest", "highest", "host ms", "TFLOP/s", "of the ceiling", "target tokens/s")
WIDTH = 118
"""Characters of a line of the screen."""
SHOWN = 0.01
"""Of the device's work: what takes less is not shown."""


class Results:
    """The stages of this call and, if there is a file of the same commit, card and sizes, of those before it.

    folder: None: nothing is saved   quick: whether sizes are small
    """

    def __init__(self, folder: Path | None, facts: dict, quick: bool):
        name = f"gpu {facts['card']} {facts['commit']}{' quick' if quick else ''}".lower()
        self.path = folder / f"{re.sub(r'[^0-9a-z]+', '-', name)}.json" if folder else None
        self._facts = facts
        is_known = facts["commit"] != "unknown" and not facts["commit"].endswith("+ changes")
        is_there = is_known and self.path is not None and self.path.is_file()
        self._earlier = json.loads(self.path.read_text(encoding="utf-8"))["stages"] if is_there else {}
        self.stages: dict[str, dict] = dict(self._earlier)

    def keep(self, name: str, result: dict) -> None:
        """Save ``result`` of a stage, with what was measured before where it failed."""
        self.stages[name] = combined(self._earlier.get(name), result)
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path, json.dumps({"machine": self._facts, "stages": self.stages}, indent=1) + "\n")
            write_text(self.path.with_suffix(".md"), markdown(self._facts, self.stages))


def failures(result: object, within: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(which part, why) of everything in a stage that failed."""
    if not isinstance(result, dict):
        return []
    own = [(", ".join(within), str(result["failed"]))] if "failed" in result else []
    return own + [each for name, part in result.items() for each in failures(part, (*within, name))]


def is_whole(result: object) -> bool:
    """Whether nothing of a stage, or of its parts, failed or was left out."""
    if not isinstance(result, dict):
        return True
    return result.keys().isdisjoint({"failed", "left out"}) and all(map(is_whole, result.values()))


def combined(earlier: dict | None, now: dict) -> dict:
    """``now``, and what only ``earlier`` has measured. A failure never replaces what was measured before."""
    if not earlier or is_whole(now):
        return now
    if "left out" in now:
        return earlier
    if is_whole(earlier):
        return earlier | {"failed later": now.get("failed", "a part of it")}
    old = {key: value for key, value in earlier.items() if key not in ("failed", "left out", "end")}
    kept = {key: value for key, value in old.items() if key not in now or (not is_whole(now[key]) and is_whole(value))}
    return now | kept


def outcome(result: dict) -> str:
    """One line."""
    if "left out" in result:
        return f"left out: {result['left out']}"
    wrong = [": ".join(filter(None, each)) for each in failures(result)]
    return f"failed: {'; '.join(wrong)}" if wrong else result.get("says") or "done"


def screen(stages: dict[str, dict]) -> str:
    """What is right, what is wrong, what is not known, and what costs the most: one screen."""
    right = [f"{name}: {outcome(each)}" for name, each in stages.items() if is_whole(each)]
    wrong = [
        f"{': '.join(filter(None, (name, part)))}: {why}"
        for name, each in stages.items()
        for part, why in failures(each)
    ]
    unknown = [f"{name}: {each['left out']}" for name, each in stages.items() if "left out" in each]
    found = stages.get("kernels", {})
    costs = [
        f"{name}: {row['ms']:.2f} ms, {row['ms'] / found['update ms']:.0%} of an update"
        + (f", {row['of the bandwidth']:.0%} of the bandwidth" if "of the bandwidth" in row else "")
        + (f", {row['TFLOP/s']:.0f} TFLOP/s" if "TFLOP/s" in row else "")
        for name, row in list(found.get("kernels", {}).items())[:3]
    ]
    parts = {"right": right, "wrong": wrong[:12], "not known": unknown, "the largest costs": costs}
    lines = [line for title, each in parts.items() if each for line in (f"{title}:", *(f"  {one}" for one in each))]
    return "\n".join(" ".join(line.split("\n"))[:WIDTH] for line in lines)


def markdown(facts: dict, stages: dict[str, dict]) -> str:
    ceilings = stages.get("ceilings", {})
    updates = [
        row
        for name, stage in stages.items()
        for precision, entry in stage.items()
        if isinstance(entry, dict)
        for row in _rows(f"{name}, {precision}", entry, ceilings.get(f"{precision} TFLOP/s"))
    ]
    kernels = [
        [name, *(f"{row[key]:.2f}" if key in row else "" for key in ("calls", "ms", "MB", "of the bandwidth"))]
        for name, row in stages.get("kernels", {}).get("kernels", {}).items()
    ]
    profile = stages.get("kernels", {}).get("profiler", {})
    shares = [
        [f"`{name}`", f"{row['calls']:.0f}", f"{row['ms']:.2f}", f"{row['ms'] / profile['busy ms']:.0%}"]
        for name, row in profile.get("work", {}).items()
        if row["ms"] >= SHOWN * profile["busy ms"]
    ]
    outcomes = [[name, outcome(result), str(result.get("seconds", ""))] for name, result in stages.items()]
    return page(
        "# On a GPU",
        "`python -m benchmarks.gpu`",
        markdown_table(["stage", "outcome", "seconds"], outcomes),
        "Milliseconds of an update of 1,000 sentences of 25 + 25 tokens, dropout and Adam included. Host: until the"
        " call returns, in ours after the loss has been read. The ceiling is that of one large matrix product on the"
        " same card.",
        markdown_table(["", *COLUMNS], updates),
        "Kernels of an update in bfloat16, beside the bandwidth of a copy on the same card.",
        markdown_table(["kernel", "calls", "ms", "MB", "of the bandwidth"], kernels),
        *(_profile_table(profile, shares) if shares else ()),
        facts_list(facts),
    )


def _profile_table(profile: dict, shares: list[list[str]]) -> list[str]:
    return [
        "What the device does in an update, CuPy's own kernels included, by PyTorch's profiler. It works for"
        f" {profile['busy ms']:.1f} of {profile['update ms']:.1f} ms and waits for Python in the others; the profiler"
        f" slows Python. What takes less than {SHOWN:.0%} of the work is left out.",
        markdown_table(["work", "calls", "ms", "of all work"], shares),
    ]


def _rows(what: str, entry: dict, ceiling: float | None) -> list[list[str]]:
    rows = []
    for who, values in entry.items():
        if isinstance(values, dict) and "device ms" in values:
            times = values["device ms"]
            share = f"{values['TFLOP/s'] / ceiling:.2f}" if isinstance(ceiling, float) else ""
            cells = [f"{times[each]:.2f}" for each in ("median", "lowest", "highest")]
            cells += [f"{values['host ms']['median']:.2f}", f"{values['TFLOP/s']:.1f}", share]
            rows.append([f"{what}: {who}", *cells, f"{values['target tokens/s']:,.0f}"])
    return rows
