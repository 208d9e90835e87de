"""The results of the GPU benchmark: two files, saved whole after every part; what was measured once is never lost."""

import json
import re
from pathlib import Path

from benchmarks.common.tables import facts_list, markdown_head, markdown_row
from minitransformer.files import write_atomically

COLUMNS = ("ms", "lowest", "highest", "host ms", "TFLOP/s", "of the ceiling", "target tokens/s")


class Results:
    """The stages of this call and, where commit, card and sizes are the same, of those before it.

    folder: None: nothing is saved   mark: is saved with each stage, and must be the same in an earlier one
    """

    def __init__(self, folder: Path | None, facts: dict, mark: dict):
        self._folder, self._facts, self._mark = folder, facts, mark
        self._earlier = earlier(folder, facts, mark)
        self.stages = dict(self._earlier)

    def keep(self, name: str, result: dict) -> None:
        """Save ``result`` of a stage, with what was measured before where it failed."""
        self.stages[name] = combined(self._earlier.get(name), result) | self._mark
        if self._folder:
            save(self._folder, self._facts, self.stages)

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
    lines = ["# On a GPU", "", "`python -m benchmarks.gpu`", ""]
    lines += [
        "Milliseconds of an update of 1,000 sentences of 25 + 25 tokens, dropout and Adam included; the ceiling is"
    ]
    lines += ["that of one large matrix product on the same card.", ""]
    ceilings = stages.get("ceilings", {})
    lines += markdown_head(["", *COLUMNS])
    for name in ("base", "base compiled", "base compiled, tf32", "big", "big compiled"):
        for precision, entry in stages.get(name, {}).items():
            if isinstance(entry, dict):
                lines += _rows(f"{name}, {precision}", entry, ceilings.get(f"{precision} TFLOP/s"))
    lines += ["", "| stage | outcome | seconds |", "| --- | --- | --- |"]
    lines += [markdown_row([name, outcome(result), str(result.get("seconds", ""))]) for name, result in stages.items()]
    lines += ["", *facts_list(facts)]
    return "\n".join(lines) + "\n"


def _rows(what: str, entry: dict, ceiling: float | None) -> list[str]:
    rows = []
    for who, values in entry.items():
        if isinstance(values, dict) and "device ms" in values:
            times = values["device ms"]
            share = f"{values['TFLOP/s'] / ceiling:.2f}" if ceiling else ""
            cells = [f"{times[each]:.2f}" for each in ("median", "lowest", "highest")]
            cells += [f"{values['host ms']['median']:.2f}", f"{values['TFLOP/s']:.1f}", share]
            rows.append(markdown_row([f"{what}: {who}", *cells, f"{values['target tokens/s']:,.0f}"]))
    return rows


def outcome(result: dict) -> str:
    for key in ("failed", "left out"):
        if key in result:
            return f"{key}: {result[key]}"
    if "exit status" in result:
        return " ".join(result["end"][-3:]).strip()[:200]
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


def save(folder: Path, facts: dict, stages: dict[str, dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"gpu.json": json.dumps({"machine": facts, "stages": stages}, indent=1) + "\n"}
    texts["gpu.md"] = markdown(facts, stages)
    for name, text in texts.items():
        write_atomically(folder / name, lambda file, text=text: file.write(text.encode("utf-8")))


def earlier(folder: Path | None, facts: dict, mark: dict) -> dict[str, dict]:
    """The stages that a call before this one has left in the folder, of the same commit without changes. Results that
    do not belong to them are set aside in files of their own.

    mark: what else must be the same, as it is saved with each stage: the card, and whether sizes were small
    """
    path = folder / "gpu.json" if folder else None
    if path is None or not path.is_file():
        return {}
    commit, found = facts["commit"], json.loads(path.read_text(encoding="utf-8"))
    theirs = found["machine"].get("commit", "unknown")
    same = theirs == commit != "unknown" and not commit.endswith("+ changes")
    kept = {name: stage for name, stage in found["stages"].items() if same and mark.items() <= stage.items()}
    if len(kept) < len(found["stages"]):
        _set_aside(path, theirs)
    return kept


def _set_aside(path: Path, commit: str) -> None:
    """A copy under a name that nothing has yet."""
    stem = f"{path.stem}-{re.sub(r'[^0-9a-z]+', '-', commit)}"
    names = (path.with_name(f"{stem}{number}{path.suffix}") for number in ("", *(f"-{n}" for n in range(2, 1000))))
    free, text = next(each for each in names if not each.exists()), path.read_bytes()
    write_atomically(free, lambda file: file.write(text))
