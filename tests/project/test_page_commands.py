"""Every command that a page, a recipe or a lesson shows is one that its program accepts."""

import argparse
import json
import re
import runpy
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_readme import PAGES

from minitransformer.cli.main import build_parser
from minitransformer.config import Config

ROOT = Path(__file__).parents[2]
PATTERNS = ("lessons/*.ipynb", "examples/**/*.toml", "examples/**/*.sbatch")
FILES = sorted([*PAGES, *(path for pattern in PATTERNS for path in ROOT.glob(pattern))])
PROGRAM = re.compile(r"(?:^|.*[\s/])(minitransformer|python -m (?!pytest|venv)[\w.]+|python [\w/]+\.py)(?= |$)")
PARSE_ARGS = argparse.ArgumentParser.parse_args


class AcceptedError(BaseException):
    """Raised where a program has accepted its arguments, so that it does not run."""


def accept_and_stop(parser, args=None, namespace=None):
    PARSE_ARGS(parser, args, namespace)
    raise AcceptedError


def shown(path: Path) -> tuple[list[str], list[str]]:
    """The lines of the ``sh`` blocks of a file, and what stands between backticks, or in a notebook between quotes."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    if path.suffix == ".sbatch":
        text = f"```sh\n{text}\n```\n"
    prose, languages, codes = (re.split(r"^ *```(\w*)\n(.*?)^ *```$", text, flags=re.M | re.S)[i::3] for i in range(3))
    blocks = [code.replace("\\\n", " ") for name, code in zip(languages, codes, strict=True) if name == "sh"]
    spans = re.findall(r"`([^`]+)`", "\n".join(prose))
    if path.suffix == ".ipynb":
        spans += [text.strip() for text in re.findall(r'"([^"\n]+)"', "\n".join(prose))]
    return [line for block in blocks for line in re.split(r"\n|&&|\|", block)], spans


def accept(program: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """SystemExit unless the program accepts these arguments."""
    name = program.split()[-1]
    with monkeypatch.context() as patched, pytest.raises(AcceptedError):
        patched.setattr(argparse.ArgumentParser, "parse_args", accept_and_stop)
        patched.setattr(sys, "argv", [name, *words])
        if name.endswith(".py"):
            runpy.run_path(str(ROOT / name), run_name="__main__")
        elif name == "minitransformer" or name == "examples.paper.run":
            build_parser().parse_args(words)
        else:
            try:
                runpy.run_module(name, run_name="__main__")
            except ModuleNotFoundError as error:
                pytest.skip(f'could not import {error.name}: pip install -e ".[dev]"')


def commands(lines: list[str]) -> list[tuple[str, list[str]]]:
    """The programs of this project that the lines run, and their arguments, without redirections and comments."""
    found = [(PROGRAM.match(line), line) for line in lines]
    rests = [(match[1], re.sub(r" [<>] ?\S+", "", line[match.end() :])) for match, line in found if match]
    return [(program, shlex.split(rest, comments=True)) for program, rest in rests]


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # a program run twice
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_shown_is_one_that_the_program_accepts(path, monkeypatch):
    lines, spans = shown(path)
    spans = [span for span in spans if re.match("minitransformer |python ", span) and not re.match(r"[\w ]+:", span)]
    named = {*build_parser()._subparsers._group_actions[0].choices, "COMMAND"}
    for program, words in commands(lines):
        parts = [words[: words.index("--") + 1] + ["x"], words[words.index("--") + 1 :]] if "--" in words else [words]
        for part in parts if words else []:
            accept(program, part, monkeypatch)
    for program, words in commands(spans):
        name = program.split()[-1]
        assert name == "minitransformer" or (ROOT / name).is_file() or find_spec(name)
        if len(words) > 1 and not {"--help", "..."} & set(words):
            accept(program, ["1" if word == "N" else word for word in words], monkeypatch)
        elif name == "minitransformer":
            assert set(words[:1]) <= named


def ranks_started(line: str) -> int:
    """By launch, mpiexec, srun, sbatch, or one of so many by hand."""
    if line.startswith("sbatch "):
        line = (ROOT / "examples/slurm/train.sbatch").read_text(encoding="utf-8") + line
    found = {name: int(n) for name, n in re.findall(r"(-n|--size|--nodes|--ntasks-per-node)[ =](\d+)", line)}
    return found.get("-n") or found.get("--size") or found.get("--nodes", 1) * found.get("--ntasks-per-node", 1)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_command_starts_more_ranks_than_its_recipe_has_micro_batches(page):
    for line in map(str.strip, shown(page)[0]):
        for recipe in filter(Path.is_file, (ROOT / name for name in re.findall(r"\S+\.toml", line))):
            assert ranks_started(line) <= Config.load(recipe).training.micro_batches, line


def test_an_example_that_refuses_its_arguments_names_the_command_that_was_run():
    for path in sorted(ROOT.glob("examples/**/*.py")):
        file = path.relative_to(ROOT)
        module = ".".join(file.with_suffix("").parts).removesuffix(".__main__")
        known = f"python -m {module}", f"python {file.as_posix()}", "python -m examples.paper.{program}"
        for name in re.findall(r'Parser\(\s*prog=f?"([^"]+)"', path.read_text(encoding="utf-8")):
            assert name in known, file
