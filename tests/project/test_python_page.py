"""docs/python.md, run from top to bottom as one program: what it says is printed is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from extras import need

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, flags=re.DOTALL)


def test_the_page_prints_what_it_says(tmp_path):
    need("sacrebleu")
    mark = "-- end of a block --\n"
    program = "".join(f"{code}\nprint({mark.strip()!r})\n" for code, _ in BLOCKS)
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    command, environment = [sys.executable, "page.py"], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(mark) == [*(printed for _, printed in BLOCKS), ""]
    assert sum(bool(printed) for _, printed in BLOCKS) == PAGE.count("```text") >= 7
