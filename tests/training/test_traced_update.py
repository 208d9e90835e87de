"""What a reader is told to read first is what every training runs."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

import minitransformer
from minitransformer.config import Config, DataConfig, ExecutionConfig, ModelConfig, TrainingConfig
from minitransformer.training import Corpus, Trainer

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
READING_ORDER = re.findall(r"^\| \[([\w/.]+)\]\(minitransformer/\1\) \|", README, re.MULTILINE)
PACKAGE = Path(minitransformer.__file__).parent
UPDATES = 3  # of which the last is traced


def trace_update(folder: Path, kernels: str) -> Counter[str]:
    """Calls within each file of the package during the third update of a run of one layer."""
    shape = ModelConfig(vocab_size=16, n_layers=1, d_model=32, d_ff=64, n_heads=4)
    ids = [[4 + (i + j) % 12 for j in range(8)] for i in range(64)]
    calls: Counter[str] = Counter()
    one_update = Trainer._one_update

    def count(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            calls[path.relative_to(PACKAGE).as_posix()] += 1

    def traced(trainer, bar):
        sys.setprofile(count if trainer.update + 1 == UPDATES else None)
        try:
            one_update(trainer, bar)
        finally:
            sys.setprofile(None)

    training = TrainingConfig(directory=str(folder / kernels), updates=UPDATES)
    config = Config(
        shape, DataConfig(src_tokens=256, tgt_tokens=256), training, ExecutionConfig(device="cpu", kernels=kernels)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_one_update", traced)
        Trainer(config, Corpus((ids, ids)), progress=False).run()
    return calls


def test_an_update_of_train_goes_through_the_three_files_that_are_read_first(tmp_path):
    assert READING_ORDER == ["ops/attention.py", "autograd/tape.py", "training/step.py"]
    plain = trace_update(tmp_path, "simple")
    assert all(plain[name] for name in READING_ORDER)
    fast = trace_update(tmp_path, "fast")  # a kernel takes the place of the rule of attention, and of nothing else here
    assert all(fast[name] for name in READING_ORDER[1:])
    assert not {name for name in fast if name == "kernels/profile.py" or name.startswith("kernels/cupy/")}
