"""The wheel, installed outside the checkout: everything is in it, and a tiny model trains and translates.

    python -m tests.reliability.wheel

Builds the wheel from a copy of the package, checks its contents, installs it into a new virtual environment in a
temporary folder, and runs its commands there. The exit code is 0 if all of it works.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILT_FROM = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
CONFIG = """\
model = {n_layers = 1, d_model = 16, d_ff = 32, n_heads = 2}
data = {train_src = "text", train_tgt = "text", valid_src = "text", valid_tgt = "text", tokenizer = "bpe"}
training = {directory = "run", updates = 5, micro_batches = 2, threads = 2}
"""


def build(folder: Path) -> Path:
    """Build the wheel from a copy, since a build folder in the checkout may contain files of an older version."""
    copy = folder / "source"
    shutil.copytree(ROOT / "minitransformer", copy / "minitransformer", ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(copy)]
    subprocess.run(command, check=True)
    return next(folder.glob("minitransformer-*.whl"))


def check_contents(wheel: Path) -> int:
    """Require the package's files, the license, and nothing else; returns the number of the package's files."""
    with zipfile.ZipFile(wheel) as bundle:
        names = set(bundle.namelist())
        points = next(name for name in names if name.endswith(".dist-info/entry_points.txt"))
        assert b"minitransformer = minitransformer.__main__:main" in bundle.read(points)
    package = {name for name in names if name.startswith("minitransformer/")}
    files = {path for path in (ROOT / "minitransformer").rglob("*") if path.is_file()}
    wanted = {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}
    assert package == wanted, f"only in the wheel or the checkout: {sorted(package ^ wanted)}"
    assert {Path(name).suffix for name in package} >= {".py", ".cu", ".cuh", ".typed"}
    outside = {name for name in names - package if ".dist-info/" not in name}
    assert not outside and any(name.endswith("/LICENSE") for name in names), outside
    return len(package)


def install(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """Python and the command of a new virtual environment, with the wheel and what it requires."""
    venv.create(folder, with_pip=True)
    place = "Scripts/{}.exe" if os.name == "nt" else "bin/{}"
    python, command = (folder / place.format(name) for name in ("python", "minitransformer"))
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    return python, command


def check_commands(python: Path, command: Path, folder: Path) -> None:
    """Train and translate in a folder without the checkout on the path."""
    folder.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    (folder / "text").write_bytes("ein Wort für Ωmega\nund zwei\n".encode() * 30)
    (folder / "config.toml").write_text(CONFIG, encoding="utf-8")

    def run(*words: object, sent: bytes = b"") -> str:
        done = subprocess.run([*map(str, words)], cwd=folder, env=clean, input=sent, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode("utf-8")
        return done.stdout.decode("utf-8")

    where = run(python, "-c", "import minitransformer; print(minitransformer.__file__)").strip()
    assert Path(where).is_relative_to(python.parents[1]), where
    assert run(command, "--version").startswith("minitransformer ")
    run(command, "bpe", "train", "text", "-o", "bpe", "--vocab-size", "290")
    run(command, "train", "config.toml")
    checkpoint = "run/checkpoints/update_00000005.npz"
    assert run(command, "translate", "--checkpoint", checkpoint, sent=b"ein Wort\n\nzwei\n").count("\n") == 3
    run(python, "-m", "minitransformer", "doctor")


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        wheel = build(folder)
        files = check_contents(wheel)
        check_commands(*install(wheel, folder / "venv"), folder / "work")
        print(f"{wheel.name}: {files} files; trains and translates outside the checkout", end="; ")
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
