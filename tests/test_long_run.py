"""The long run in its quick form, and what it must find: leaks, and lines that are lost or moved."""

from dataclasses import replace

import pytest

from tests.reliability import long_run
from tests.reliability.odd_lines import KINDS, draw_lines
from tests.reliability.watch import MEMORY_DRIFT, Sample, can_watch, flatness, robust_slope

needs_proc = pytest.mark.skipif(not can_watch(), reason="this system has no /proc")


def steady(rng, count: int = 200) -> list[Sample]:
    """Memory that jumps a little, a file that is open now and then."""
    megabytes, files = 100 + rng.normal(size=count), 4 + (rng.random(count) < 0.1)
    return [Sample(float(i), *each, 5) for i, each in enumerate(zip(megabytes, map(int, files), strict=True))]


LEAKS = {
    "memory": lambda each, total: replace(each, megabytes=each.megabytes + 3 * MEMORY_DRIFT * each.seconds / total),
    "files": lambda each, total: replace(each, files=each.files + int(8 * each.seconds / total)),
    "threads": lambda each, total: replace(each, threads=each.threads + (each.seconds > 0.9 * total)),
}


@pytest.mark.parametrize("leak", ["memory", "files", "threads"])
def test_a_leak_is_found(leak, rng):
    samples = steady(rng)
    assert flatness(samples)["flat"]
    assert not flatness([LEAKS[leak](each, len(samples)) for each in samples])["flat"]


def test_a_peak_of_memory_is_no_leak(rng):
    samples = steady(rng)
    samples[-30] = replace(samples[-30], megabytes=1000.0)
    assert flatness(samples)["flat"]


def test_the_robust_slope_of_a_line_with_outliers_is_that_of_the_line(rng):
    slope, x = rng.normal(), rng.random(101).cumsum()
    y = slope * x + rng.normal()
    y[rng.choice(101, 20, replace=False)] += 1000 * rng.random(20)
    assert robust_slope(x, y) == pytest.approx(slope, abs=0.05 + 0.05 * abs(slope))


def test_lines_of_every_kind_are_drawn_and_none_has_a_line_feed(rng):
    lines, kinds = draw_lines(300, int(rng.integers(1000)))
    assert set(kinds) == set(KINDS) and len(lines) == 300
    assert not any("\n" in line for line in lines)


@pytest.mark.parametrize("fault", ["none", "lost", "moved", "not named", "not blank"])
def test_a_line_that_is_lost_moved_or_not_named_is_found(fault, tmp_path, monkeypatch):
    def translated(line: str) -> str:
        return long_run.GERMAN.get(line, line.upper()) if line.strip() and len(line) < 1000 else ""

    def translate(folder, text, every):
        lines = text.decode("utf-8", "replace").split("\n")[:-1]
        out = [translated(line) for line in lines]
        messages = [f"translate: line {n} must have" for n, line in enumerate(lines, start=1) if len(line) > 1000]
        if fault == "lost":
            del out[7]
        if fault == "moved":
            out[:2] = out[1::-1]
        if fault == "not named":
            del messages[0]
        if fault == "not blank":
            out[next(i for i, line in enumerate(lines) if not line.strip())] = "x"
        return [], [*out, ""], messages, 2

    monkeypatch.setattr(long_run, "translate", translate)
    monkeypatch.setattr(long_run, "translated_alone", lambda folder, line: f"{translated(line)}\n")
    _, facts = long_run.check_translation(tmp_path, count=400, seed=1, alone=200, every=1.0)
    assert facts["passed"] == (fault == "none")


@needs_proc
def test_odd_lines_through_the_command_line_after_some_seconds_of_training(tmp_path):
    assert long_run.main(["--quick", "--folder", str(tmp_path / "run")]) == 0
