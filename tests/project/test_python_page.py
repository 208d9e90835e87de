"""docs/python.md, run from top to bottom as one program: what it says is printed is printed."""

import re
from pathlib import Path

from extras import need
from systems import python

PAGE = (Path(__file__).parents[2] / "docs/python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, flags=re.DOTALL)


def test_the_page_prints_what_it_says(tmp_path):
    need("sacrebleu")
    mark = "-- end of a block --\n"
    program = "".join(f"{code}\nprint({mark.strip()!r})\n" for code, _ in BLOCKS)
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    done = python("page.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(mark) == [*(printed for _, printed in BLOCKS), ""]
    assert sum(bool(printed) for _, printed in BLOCKS) == PAGE.count("```text") >= 7
