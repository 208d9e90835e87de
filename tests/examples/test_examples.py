"""The examples: numerals are English and German, nothing tested was trained on, and each program runs to its end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from extras import need
from systems import needs, python

from examples import language_model, number_words, sequences
from minitransformer.errors import ConfigError

FOLDER = Path(number_words.__file__).parent
# As a dictionary spells them.
NUMERALS = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    12: ("twelve", "zwölf"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    21: ("twenty-one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    66: ("sixty-six", "sechsundsechzig"),
    100: ("one hundred", "einhundert"),
    101: ("one hundred one", "einhunderteins"),
    1_001: ("one thousand one", "eintausendeins"),
    21_000: ("twenty-one thousand", "einundzwanzigtausend"),
    101_011: ("one hundred one thousand eleven", "einhunderteintausendelf"),
    743_205: (
        "seven hundred forty-three thousand two hundred five",
        "siebenhundertdreiundvierzigtausendzweihundertfünf",
    ),
    999_999: (
        "nine hundred ninety-nine thousand nine hundred ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
}


@pytest.mark.parametrize("number", NUMERALS)
def test_numbers_are_spelled_as_in_english_and_german(number):
    assert (number_words.english(number), number_words.german(number)) == NUMERALS[number]


def test_no_two_numbers_are_spelled_alike():
    numbers = range(0, 1_000_000, 997)
    for spell in (number_words.english, number_words.german):
        assert len(set(map(spell, numbers))) == len(numbers)


def test_numbers_are_drawn_once_and_those_shown_never():
    numbers = number_words.draw_numbers(5000, seed=2)
    assert len(set(numbers)) == 5000
    assert not set(numbers) & set(number_words.SHOWN)
    assert numbers == number_words.draw_numbers(5000, seed=2) != number_words.draw_numbers(5000, seed=3)


def test_the_language_model_is_validated_on_no_line_that_it_has_seen():
    lines = language_model.counting(3000, seed=1)
    train, valid = language_model.held_out(lines)
    assert train == lines[60:] and valid and not set(train) & set(valid) and set(valid) < set(lines[:60])
    with pytest.raises(ConfigError, match="must not all be repeated later, got 2 of which all are"):
        language_model.held_out(["one", "two"] * 50)


def test_the_language_model_learns_any_text_and_writes_on(tmp_path, monkeypatch, capsys):
    need("matplotlib")
    text = tmp_path / "text"
    text.write_text("".join(f"line {number} of it, éà\n" for number in range(150)), encoding="utf-8")
    options = ["--text", str(text), "--prompt", "line 1", "--updates", "3", "--directory", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["language_model", *options])
    assert language_model.main() == 0
    printed = capsys.readouterr().out
    assert "nats a character on lines it never saw" in printed and "\nline 1" in printed
    assert all((tmp_path / "run" / name).is_file() for name in ("sample.txt", "curves.png"))
    monkeypatch.setattr(
        sys, "argv", ["language_model", *options[:4], "--prompt", "Ω", "--directory", str(tmp_path / "b")]
    )
    assert language_model.main() == 2 and not (tmp_path / "b").exists()  # before it trains
    error = capsys.readouterr().err
    assert error.endswith("language_model: --prompt must consist of characters of the text, got 'Ω'\n")


def test_no_sequence_of_the_test_is_in_training():
    train, unseen = sequences.draw_sequences(3000, 500, seed=2)
    assert len(set(unseen)) == 500
    assert not set(train) & set(unseen)
    assert {len(sequence) for sequence in train} == set(range(1, sequences.LONGEST + 1))


@pytest.mark.parametrize(
    ("program", "arguments", "result"),
    [
        (number_words, ["--numbers", "300"], "of 20 numbers never seen in training"),
        (sequences, ["copy", "--sequences", "300"], "of 20 sequences never seen in training: copy exactly right"),
        (sequences, ["reverse", "--sequences", "300", "--kernels", "simple"], "reverse exactly right"),
    ],
    ids=["number_words", "copy", "reverse with simple kernels"],
)
def test_the_program_runs_from_start_to_picture(program, arguments, result, tmp_path, monkeypatch, capsys):
    need("matplotlib")
    options = ["--updates", "2", "--unseen", "20", "--directory", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [program.__name__, *arguments, *options])
    assert program.main() == 0
    assert result in capsys.readouterr().out
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")


PROGRAMS = [path for path in sorted(FOLDER.rglob("*.py")) if "\ndef main(" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_program_says_its_users_errors_in_one_line(path):
    if path.name != "one_file.py":  # which has NumPy alone
        assert re.search(r"^@report_errors\ndef main", path.read_text(encoding="utf-8"), re.M)


def test_the_loop_by_hand_runs_and_tests_what_it_learned():
    program = (FOLDER / "by_hand.py").read_text(encoding="utf-8")
    done = python("-c", re.sub("^updates, rng = 1200", "updates, rng = 2", program, count=1, flags=re.M))
    assert done.returncode == 0, done.stderr
    first, *reversed_sequences, result = done.stdout.splitlines()
    assert first.startswith("update 1: 3.") and first.endswith("nats per token")
    assert len(reversed_sequences) == 3 and all("] reversed is [" in line for line in reversed_sequences)
    assert result.endswith("of 1000 unseen sequences reversed exactly")


@needs("POSIX")
def test_the_slurm_script_gives_each_rank_its_cores_and_leaves_mpi_alone(tmp_path):
    """Two faults: since Slurm 22.05 srun does not take --cpus-per-task from the job, and each rank had one core; and an
    MPI that is the cluster's default is not always mpi4py's, whose start then failed."""
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\necho $*\n", encoding="utf-8")
    srun.chmod(0o755)
    job = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "8"}
    script = ["bash", FOLDER / "slurm/train.sbatch", "x.toml"]
    started = subprocess.run(script, env=job, capture_output=True, text=True, check=True).stdout.split()
    assert {"--cpus-per-task=8", "--mpi=none"} < set(started) and started[-2:] == ["train", "x.toml"]
