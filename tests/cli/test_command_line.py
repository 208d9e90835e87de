"""The command line itself: help, version, and how a command ends that fails."""

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from systems import needs
from tiny_run import tiny_config, tiny_corpus

from minitransformer.checkpoints import RunFolder, load_checkpoint
from minitransformer.cli import doctor
from minitransformer.cli.common import print_line
from minitransformer.cli.main import Parser, build_parser, main
from minitransformer.config import Config
from minitransformer.settings import describe
from minitransformer.training import Trainer
from minitransformer.training.progress import Progress


def help_of(capsys, *command: str) -> str:
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out


def options() -> list[tuple[str, str, dict]]:
    """(command, name, settings) of every option and argument."""
    found, add_argument = [], Parser.add_argument

    def add(parser: Parser, *names: str, **settings):
        found.append((parser.prog, names[-1], settings))
        return add_argument(parser, *names, **settings)

    with patch.object(Parser, "add_argument", add):
        build_parser()
    return [each for each in found if each[1] not in ("--help", "--version")]


@pytest.mark.parametrize(("command", "name", "settings"), options())
def test_every_option_is_required_or_its_help_has_the_default(command, name, settings):
    assert len(settings["help"]) > 10
    assert settings.get("required") or not name.startswith("-") or "default" in settings["help"]


@pytest.mark.parametrize("command", ["average", "doctor", "evaluate", "bpe", "bpe train", "plot attention"])
def test_help_of_a_command_says_what_it_does(command, capsys):
    _, usage, description, *_ = re.split(r"(?:^|\n\n)(?=usage: )|\n\n", help_of(capsys, *command.split()))
    assert usage.startswith(f"usage: minitransformer {command} ")
    assert description[0].isupper() and description.endswith(".")


def test_help_of_train_lists_every_key_of_the_config(capsys):
    text = help_of(capsys, "train")
    assert "model.d_model (int, 512): width of the residual stream" in text
    assert [key for key, *_ in describe(Config) if f"{key} (" not in text] == []


def test_version_is_printed_and_numpy_not_yet_loaded():
    program = (
        "import sys; from minitransformer.cli.main import Parser, build_parser, main; code = main(['--version'])\n"
        "assert not {'numpy', 'tqdm', 'regex', 'urllib.request'} & set(sys.modules); sys.exit(code)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("minitransformer 0.")


@needs("signals between processes")
def test_a_closed_pipe_ends_the_program_quietly():
    program = [sys.executable, "-m", "minitransformer", "doctor"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "minitransformer doctor: interrupted\n"),
        (MemoryError(), 2, "minitransformer doctor: not enough memory (no details); take smaller batches"),
        (PermissionError(13, "Permission denied", "a.txt"), 2, "minitransformer doctor: a.txt: Permission denied\n"),
    ],
)
def test_an_interruption_and_a_lack_of_memory_end_in_one_line(error, code, text, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "run", Mock(side_effect=error))
    assert main(["doctor"]) == code
    message = capsys.readouterr().err
    assert message.startswith(text) and message.count("\n") == 1


class Terminal(io.StringIO):
    """Standard error as a terminal would show it: the text of each line after what erases it."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        return [line.rpartition("\x1b[K")[2] for line in self.getvalue().split("\n")]


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_message_begins_on_a_line_of_its_own_though_a_bar_is_drawn(stream, monkeypatch):
    """The bar is that of rank 0, which is never closed when the process that supervises it prints why the job ends."""
    monkeypatch.setattr(sys, "stderr", stream())
    bar = Progress(is_rank_0=True, with_bar=True).bar(0, 5000)
    bar.refresh()
    print_line("train", "rank 1 ended")
    shown = sys.stderr
    lines = shown.lines() if stream is Terminal else shown.getvalue().split("\n")
    assert "0/5000" in shown.getvalue() and "minitransformer train: rank 1 ended" in lines
    bar.close()


def full_disk():
    return open("/dev/full", "w", buffering=1)


def pipe_without_a_reader():
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w", buffering=1)


@pytest.mark.parametrize("stream", [full_disk, pipe_without_a_reader])
def test_a_training_whose_messages_cannot_be_written_goes_on_and_is_saved(stream, tmp_path, monkeypatch):
    if stream is full_disk and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    monkeypatch.setattr(sys, "stderr", stream())
    trainer = Trainer(tiny_config(tmp_path, updates=6), tiny_corpus(), progress=True)
    bar = trainer.progress.bar(0, 6)
    with pytest.raises(OSError):
        sys.stderr.write("nobody reads this\n")
    bar.refresh()
    trainer.progress.write("nor this")
    assert trainer.run().update == 6
    assert load_checkpoint(RunFolder(tmp_path).paths()[-1]).update == 6


LONG = "x\x1b[31m" * 2000


@pytest.mark.parametrize(
    "text",
    [f'["{LONG}"]', f'[model]\n"{LONG}" = 1', f'[model]\nkind = "{LONG}"', f'[training]\ndirectory = ["{LONG}"]'],
    ids=["section", "key", "choice", "type"],
)
def test_messages_shorten_and_escape_what_is_in_a_config(text, tmp_path, capsys):
    (tmp_path / "run.toml").write_text(text.replace("\x1b", "\\u001b"))
    assert main(["train", str(tmp_path / "run.toml")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("minitransformer") and error.count("\n") == 1 and error.endswith("\n")
    assert "\x1b" not in error and len(error) < 800, error


def test_ctrl_c_before_the_command_begins_gives_no_traceback(monkeypatch):
    monkeypatch.setattr(Parser, "parse_args", Mock(side_effect=KeyboardInterrupt))
    assert main(["doctor"]) == 130


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_closed_standard_stream_is_not_an_error(stream, monkeypatch):
    monkeypatch.setattr(sys, stream, None)
    assert main(["doctor"]) == 0


def test_a_full_disk_behind_standard_output_or_error_gives_no_traceback(monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # what is buffered is written once more at exit
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("this system has no /dev/full")
    program = [sys.executable, "-m", "minitransformer", "doctor"]
    with full.open("w") as output:
        result = subprocess.run(program, stdout=output, stderr=subprocess.PIPE, text=True)
        assert result.returncode == 2
        assert result.stderr == "minitransformer doctor: No space left on device\n"
        assert subprocess.run([*program[:3], "train", "none.toml"], stderr=output).returncode == 2
        result = subprocess.run([*program[:3], "--help"], stdout=output, stderr=subprocess.PIPE)
        assert (result.returncode, result.stderr) == (0, b"")


ENTRY_POINT = re.search("minitransformer = (.*):(.*)", (Path(__file__).parents[2] / "setup.cfg").read_text())
AS_INSTALLED = f"import sys; from {ENTRY_POINT[1]} import {ENTRY_POINT[2]} as main; sys.exit(main())"


@needs("signals between processes")
@pytest.mark.parametrize("start", [["-m", "minitransformer"], ["-c", AS_INSTALLED]], ids=["module", "installed"])
def test_ctrl_c_during_the_imports_gives_no_traceback(tmp_path, start):
    (tmp_path / "argparse.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    program = [sys.executable, *start, "doctor"]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"}
    result = subprocess.run(program, env=environment, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (-signal.SIGINT, b"")


def test_an_output_that_must_not_be_written_is_refused_before_the_work(tmp_path, refused, monkeypatch):
    output = tmp_path / "bpe.txt"
    output.touch(mode=0o444)
    if os.access(output, os.W_OK):  # root may write everything
        monkeypatch.setattr(os, "access", lambda path, mode: path != output)
    refused(main(["bpe", "train", str(tmp_path / "none.en"), "-o", str(output)]), "output must be a writable file, got")
