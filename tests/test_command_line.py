"""The command line as such: help, version, and how a command ends that cannot go on."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from minitransformer.cli import doctor
from minitransformer.cli.main import build_parser, main


def help_of(capsys, *command: str) -> str:
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out


def commands(parser: argparse.ArgumentParser):
    """Every parser below ``parser`` that runs something."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for choice in action.choices.values():
            yield from commands(choice)


@pytest.mark.parametrize("parser", list(commands(build_parser())), ids=lambda parser: parser.prog)
def test_every_option_is_required_or_tells_its_default(parser):
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        assert action.help
        in_a_group_with_one_default = any(
            action in group._group_actions and "default of each" in (group.description or "")
            for group in parser._action_groups
        )
        assert action.required or "default" in action.help or in_a_group_with_one_default, action.option_strings


def test_help_of_train_lists_every_key_of_the_config(capsys):
    text = help_of(capsys, "train")
    assert "model.d_model (int, 512): width of the residual stream" in text
    assert "translation.alpha (float, 0.6)" in text


def test_version_is_printed_and_numpy_not_yet_loaded():
    program = (
        "import sys; from minitransformer.cli.main import main; code = main(['--version'])\n"
        "assert not {'numpy', 'tqdm', 'regex', 'urllib.request'} & set(sys.modules); sys.exit(code)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("minitransformer 0.")


def test_a_reader_that_goes_away_ends_the_program_quietly():
    program = [sys.executable, "-m", "minitransformer", "data", "list"]
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
def test_an_interruption_and_a_full_machine_end_in_one_line(error, code, text, monkeypatch, capsys):
    def fail(*_):
        raise error

    monkeypatch.setattr(doctor, "_examined", fail)
    assert main(["doctor"]) == code
    message = capsys.readouterr().err
    assert message.startswith(text) and message.count("\n") == 1


def test_help_of_plot_calls_the_attentions_by_the_names_of_the_paper(capsys):
    words = " ".join(help_of(capsys, "plot", "attention").split())
    assert "cross: encoder-decoder attention; decoder, encoder: self-attention" in words
