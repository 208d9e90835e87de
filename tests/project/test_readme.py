"""What README.md and the other pages claim of the files: links, line counts, the code shown and keys."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import minitransformer
from minitransformer.config import Config

ROOT = Path(__file__).parents[2]
PACKAGE = Path(minitransformer.__file__).parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDERS = ("docs", "examples", "benchmarks", "lessons", "models", "tests")
PAGES = [path for where in ("", *(f"{folder}/**/" for folder in FOLDERS)) for path in sorted(ROOT.glob(f"{where}*.md"))]


def blocks(language: str, text: str = README) -> list[str]:
    """The code blocks of a page in this language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [code for name, code in found if name == language]


def n_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_that_a_page_links_to_exists(page):
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_has_at_most_100_lines():
    assert len(README.splitlines()) <= 100


def test_the_model_its_gradients_and_adam_have_as_many_lines_as_the_readme_says():
    folders = ("ops", "autograd", "nn", "models", "optim")
    files = [path for folder in folders for path in (PACKAGE / folder).glob("*.py")]
    found = sum(n_lines(path) for path in files if path.name != "imported.py")  # what others' weights need beside it
    claimed = re.search(r"The model, its gradients and Adam are\s+([\d,]+) lines", README)[1]
    assert round(found, -2) == int(claimed.replace(",", ""))


def test_the_training_loop_of_the_readme_is_that_of_by_hand():
    _, loop = blocks("python")
    program = (ROOT / "examples/by_hand.py").read_text(encoding="utf-8")
    assert loop in program and len(loop.splitlines()) <= 10


def test_the_three_lines_of_python_give_what_stands_beside_them():
    *start, last = filter(None, blocks("python")[0].splitlines())
    call, answer = last.split("  # ")
    names: dict = {}
    exec("\n".join(start), names)
    assert repr(eval(call, names)) == answer and len(start) == 2


def test_by_hand_has_at_most_forty_lines_as_the_readme_says():
    assert "40 lines in all" in README
    assert n_lines(ROOT / "examples/by_hand.py") <= 40


def test_the_first_three_files_have_at_most_as_many_lines_as_claimed():
    files = re.findall(r"^\| \[[\w/.]+\]\((minitransformer/[\w/.]+)\)", README, re.MULTILINE)
    claimed = int(re.search(r"three files, (\d+) lines at most", README)[1])
    assert len(files) == 3
    assert sum(n_lines(ROOT / file) for file in files) <= claimed


def test_every_folder_of_the_package_stands_once_in_the_house():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (house,) = [block for block in blocks("", page) if block.startswith("8  cli")]
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    named = [name for line in house.splitlines() for name in re.split("   | ·", line[3:])[0].split()]
    assert sorted(folders & set(named)) == sorted(folders)
    assert len(named) == len(set(named))


def test_config_keys_that_the_guide_names_exist():
    known = {f"{section.name}.{key.name}" for section in fields(Config) for key in fields(section.default_factory)}
    sections = "|".join(section.name for section in fields(Config))
    named = set(
        re.findall(rf"(?:`|--set )((?:{sections})\.(?!py)\w+)", (ROOT / "docs/using.md").read_text(encoding="utf-8"))
    )
    assert named and named <= known
