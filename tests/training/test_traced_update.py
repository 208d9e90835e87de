"""What a reader is told to read first is what every training runs."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from tiny_run import tiny_trainer

import minitransformer
from minitransformer.training import train_step, trainer

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
READING_ORDER = re.findall(r"^\| \[([\w/.]+)\]\(minitransformer/\1\) \|", README, re.MULTILINE)
PACKAGE = Path(minitransformer.__file__).parent


def trace_update(folder: Path, kernels: str) -> Counter[str]:
    """Calls within each file of the package during the last of three updates."""
    calls: Counter[str] = Counter()

    def count(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            calls[path.relative_to(PACKAGE).as_posix()] += 1

    def traced(*inputs, update, **options):
        sys.setprofile(count if update == 3 else None)
        try:
            return train_step(*inputs, update=update, **options)
        finally:
            sys.setprofile(None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "train_step", traced)
        tiny_trainer(folder / kernels, updates=3, threads=1, kernels=kernels).run()
    return calls


def test_an_update_of_train_goes_through_the_three_files_that_are_read_first(tmp_path):
    assert READING_ORDER == ["ops/attention.py", "autograd/tape.py", "training/step.py"]
    plain = trace_update(tmp_path, "simple")
    assert all(plain[name] for name in READING_ORDER)
    fast = trace_update(tmp_path, "fast")  # a kernel takes the place of the rule of attention, and of nothing else here
    assert all(fast[name] for name in READING_ORDER[1:])
    assert not {name for name in fast if name == "kernels/profile.py" or name.startswith("kernels/cupy/")}
