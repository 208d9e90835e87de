"""The results of the GPU benchmark: a file for each commit and card, saved whole after every part."""

import json
import re
from pathlib import Path

from examples.report import facts_list, markdown_table, page
from minitransformer.files import write_text

COLUMNS = ("ms", "lowest", "highest", "host ms", "TFLOP/s", "of the ceiling", "target tokens/s")


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
            write_text(self.path.with_suffix(".md"), self.markdown())

    def markdown(self) -> str:
        return markdown(self._facts, self.stages)


def failed(result: object) -> bool:
    """Whether something of a stage, or of one of its parts, is missing."""
    if not isinstance(result, dict):
        return False
    return bool({"failed", "left out"} & set(result)) or any(map(failed, result.values()))


def combined(earlier: dict | None, now: dict) -> dict:
    """``now``, and what only ``earlier`` has measured. A failure never replaces what was measured before."""
    if not (earlier and failed(now)):
        return now
    if "left out" in now:
        return earlier
    if not failed(earlier):
        return earlier | {"failed later": now.get("failed", "a part of it")}
    old = {key: value for key, value in earlier.items() if key not in ("failed", "left out", "end")}
    kept = {key: value for key, value in old.items() if key not in now or (failed(now[key]) and not failed(value))}
    return now | kept


def markdown(facts: dict, stages: dict[str, dict]) -> str:
    ceilings = stages.get("ceilings", {})
    updates = [
        row
        for name in ("base", "base compiled", "base compiled, tf32", "big", "big compiled")
        for precision, entry in stages.get(name, {}).items()
        if isinstance(entry, dict)
        for row in _rows(f"{name}, {precision}", entry, ceilings.get(f"{precision} TFLOP/s"))
    ]
    outcomes = [[name, outcome(result), str(result.get("seconds", ""))] for name, result in stages.items()]
    return page(
        "# On a GPU",
        "`python -m benchmarks.gpu`",
        "Milliseconds of an update of 1,000 sentences of 25 + 25 tokens, dropout and Adam included; the ceiling is that"
        " of one large matrix product on the same card.",
        markdown_table(["", *COLUMNS], updates),
        markdown_table(["stage", "outcome", "seconds"], outcomes),
        facts_list(facts),
    )


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


def outcome(result: dict) -> str:
    for key in ("failed", "left out"):
        if key in result:
            return f"{key}: {result[key]}"
    if "exit status" in result:
        return " ".join(result["end"][-3:]).strip()[:200]
    if parts := [name for name, part in result.items() if failed(part)]:
        return f"failed: {', '.join(parts)}"
    if "ours" in result and isinstance(result["ours"], dict) and "sentences/s" in result["ours"]:
        others = {name: each["sentences/s"] for name, each in result.items() if isinstance(each, dict)}
        return ", ".join(f"{name} {speed:.1f} sentences/s" for name, speed in others.items())
    if "of" in result and "updates" in result:
        score = f"{result['BLEU']:.2f} sacreBLEU" if "BLEU" in result else f"unfinished: {result.get('left to do')}"
        return f"{score} after {result['updates']} updates in {result['minutes']:.1f} minutes"
    if "seeds" in result:
        judged = {name: each for name, each in result.items() if isinstance(each, dict)}
        return ", ".join(
            f"{name} in {each['within_interval']} of {each['of']} windows" for name, each in judged.items()
        )
    if "relative difference" in result:
        return f"relative difference {result['relative difference']:.1e}"
    return "done"
