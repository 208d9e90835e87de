"""What a reader is told to read first is what every training runs."""

import re
from pathlib import Path

from benchmarks.traced_update import trace_update

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
READING_ORDER = re.findall(r"^\| \[([\w/.]+)\]\(minitransformer/\1\) \|", README, re.MULTILINE)


def test_an_update_of_train_goes_through_the_three_files_that_are_read_first():
    assert READING_ORDER == ["ops/attention.py", "autograd/tape.py", "training/step.py"]
    plain = trace_update(kernels="simple")
    assert all(plain[name] for name in READING_ORDER)
    fast = trace_update(kernels="fast")  # a kernel takes the place of the rule of attention, and of nothing else here
    assert all(fast[name] for name in READING_ORDER[1:])
    assert not {name for name in fast if name == "kernels/profile.py" or name.startswith("kernels/cupy/")}
