"""What ranks train together, and the run in one process that it is compared with."""

import json
from pathlib import Path

import numpy as np
import pytest
from rank_jobs import by_mpi, launched
from tiny_run import final_state, tiny_config, tiny_corpus

from minitransformer.training import Trainer


def trained(folder: Path, size: int, start: str = "mpirun", **changes) -> np.ndarray:
    """The parameters after 20 updates of four micro-batches, float64, dropout on."""
    arguments = [folder, json.dumps({"updates": 20} | changes)]
    ended = (
        by_mpi(size, "ranked_run.py", *arguments) if start == "mpirun" else launched(size, "ranked_run.py", *arguments)
    )
    assert ended.code == 0, ended.lines
    assert [line for line in ended.lines if not line.startswith("train: resumed from")] == []
    return final_state(folder, changes.get("updates", 20))[0]


@pytest.fixture(scope="session")
def one_process(tmp_path_factory) -> Path:
    """The folder of the run in one process without threads: what all others are compared with."""
    folder = tmp_path_factory.mktemp("one_process")
    model = {"dtype": "float64", "p_drop": 0.2}
    config = tiny_config(folder, model=model, micro_batches=4, updates=20, threads=1)
    assert Trainer(config, tiny_corpus(), progress=False).run().update == 20
    return folder
