"""How many files and calls of the package one update of `minitransformer train` goes through, one layer, one process.

python -m benchmarks.traced_update
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import minitransformer
from minitransformer.config import Config, DataConfig, ExecutionConfig, ModelConfig, TrainingConfig
from minitransformer.training import Corpus, Trainer

PACKAGE = Path(minitransformer.__file__).parent
UPDATES = 3  # of which the last is traced


def trace_update(kernels: str = "fast") -> Counter[str]:
    """Calls within each file of the package during the third update of a run."""
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

    with tempfile.TemporaryDirectory() as folder, patch.object(Trainer, "_one_update", traced):
        training = TrainingConfig(directory=folder, updates=UPDATES)
        data = DataConfig(src_tokens=256, tgt_tokens=256)
        config = Config(shape, data, training, ExecutionConfig(device="cpu", kernels=kernels))
        Trainer(config, Corpus((ids, ids)), progress=False).run()
    return calls


if __name__ == "__main__":
    found = trace_update()
    for name, calls in found.most_common():
        print(f"{calls:5}  {name}")
    print(f"{found.total()} calls in {len(found)} files")
