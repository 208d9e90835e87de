"""Sweeps of the experiments: results are kept whole, read with distrust, and written by one sweep at a time."""

import re
import signal
import sys

import pytest
from systems import needs

from examples.paper import program, sweep
from minitransformer.errors import ConfigError, DataError, TrainingError


def test_what_a_crash_left_of_a_result_is_dropped_and_others_that_are_not_results_refused(tmp_path):
    read_results, path = program.read_results, tmp_path / "results.jsonl"
    path.write_text('{"name": "a", "seed": 1}\n{"name": "b", "se', encoding="utf-8")
    assert [result["key"] for result in read_results(path)] == [("a", 1)]
    command = [sys.executable, "-c", 'print(\'{"name": "b", "seed": 1}\')']
    fails = [sys.executable, "-c", "raise SystemExit(3)"]
    jobs = [sweep.Job("b", 1, command, tmp_path / "b.log"), sweep.Job("c", 1, fails, tmp_path / "c.log")]
    with pytest.raises(TrainingError, match="c, seed 1: exit code 3"):
        sweep.run_sweep(jobs, path, 1)
    assert [result["key"] for result in read_results(path)] == [("a", 1), ("b", 1)]
    path.write_bytes(path.read_bytes()[:-1])  # the end of the last line
    sweep.run_sweep([sweep.Job("a", 2, [*command[:2], 'print(\'{"name": "a", "seed": 2}\')'], tmp_path / "d")], path, 1)
    assert [result["key"] for result in read_results(path)] == [("a", 1), ("b", 1), ("a", 2)]


def test_no_training_begins_once_one_has_failed(tmp_path):
    """Not even in the moment until the failure is known: it would go on for hours, and its result be lost."""
    fails, next_one = ([sys.executable, "-S", "-c", program] for program in ("raise SystemExit(3)", "print('{}')"))
    for number in range(5):
        jobs = [sweep.Job(name, 1, words, tmp_path / f"{name}.log") for name, words in (("a", fails), ("b", next_one))]
        with pytest.raises(TrainingError, match="a, seed 1: exit code 3"):
            sweep.run_sweep(jobs, tmp_path / f"{number}.jsonl", 1)
    assert not (tmp_path / "b.log").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "a"}\n', ":1: must be a result with name and seed"),
        ('{"name": "a", "seed": "1"}\n', ":1: must be a result with name and seed"),
        ('{"name": ["a"], "seed": 1}\n', ":1: must be a result with name and seed"),
        ("[" * 100_000 + "\n", ":1: must be a result with name and seed"),
        ("\udcff\n", ":1: must be a result with name and seed"),
        ('{"name": "a", "seed": 1, "nll": NaN}\n', ":1: must be a result with name and seed, without NaN"),
        ('{"name": "a", "seed": 1, "nll": 1e999}\n', ":1: must be a result with name and seed, without NaN"),
        ('{"name": "a", "seed": 1, "nll": [-Infinity]}\n', ":1: must be a result with name and seed, without NaN"),
        ('{"name": "a", "seed": 1}\n' * 2, ":2: must be the only result of a, seed 1"),
        (
            '{"name": "a", "seed": 1, "settings": {}}\n{"name": "a", "seed": 2}\n',
            ":2: must have the settings of the first",
        ),
    ],
)
def test_files_that_are_not_results_are_refused(tmp_path, text, message):
    path = tmp_path / "results.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=re.escape(message)):
        program.read_results(path)


def test_results_are_not_written_where_the_report_is(tmp_path):
    for name in ("results.md", "results.png", ""):
        with pytest.raises(ConfigError, match="--results must end in .jsonl, got"):
            program.read_results(tmp_path / name)


@needs("file locks")
def test_one_sweep_at_a_time_works_on_a_file(tmp_path):
    path, on_term = tmp_path / "results.jsonl", signal.getsignal(signal.SIGTERM)
    with sweep.opened_alone(path), pytest.raises(ConfigError, match="results.jsonl: must be free"):
        sweep.run_sweep([], path, 1)
    assert signal.getsignal(signal.SIGTERM) == on_term
