"""The tiny run of `tiny_run.py` as one of several ranks, in float64; a fault can be planted in one of them.

    python ranked_run.py DIRECTORY '{"updates": 20, ...}' [FAULT RANK UPDATE]

The JSON changes [training]. FAULT happens in rank RANK before update UPDATE.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable

import numpy as np
from tiny_run import tiny_config, tiny_corpus

from minitransformer.cli.common import print_line
from minitransformer.cli.train import format_error
from minitransformer.distributed import ProcessGroup, init_process_group
from minitransformer.training import Trainer, compatibility, train_step, trainer


def _out_of_memory() -> None:
    raise MemoryError("Unable to allocate 9.00 TiB")


def _endless() -> None:
    while True:
        time.sleep(0.01)


def _fault() -> None:
    raise ValueError("a fault of the program")


FAULTS: dict[str, Callable[[], object]] = {
    "raise": _fault,
    "memory": _out_of_memory,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "endless": _endless,
    "exit": lambda: os._exit(0),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
}


def plant(fault: str, update: int) -> None:
    """Let ``fault`` happen in this rank."""
    if fault == "code":
        compatibility.code_hash = lambda: "another version"
        return
    if fault in ("config", "data"):
        return
    if fault == "validate":  # a validation that takes longer than the timeout
        measure = trainer.Validation.measure
        trainer.Validation.measure = lambda *arguments: time.sleep(4) or measure(*arguments)
        return

    undamaged = []

    def step(model, *arguments, **options):
        values = model.parameters.data
        if undamaged:
            values[...] = undamaged.pop()
        if options["update"] == update and fault == "nan":  # for this update alone
            undamaged.append(values.copy())
            values.fill(np.nan)
        elif options["update"] == update:
            FAULTS[fault]()
        return train_step(model, *arguments, **options)

    trainer.train_step = step


def train(words: list[str], process_group: ProcessGroup) -> int:
    directory, settings, fault, rank, update = [*words, *["", "", "0", "0"][len(words) - 1 :]]
    settings = json.loads(settings)
    here = fault and process_group.rank == int(rank)
    if here and fault == "config":
        settings |= {"lr_scale": 0.5}
    if here and fault == "folder":  # this rank sees another folder than the others
        directory = update
    elif here:
        plant(fault, int(update))
    model = {"dtype": "float64", "p_drop": 0.2}
    config = tiny_config(directory, model=model, **{"micro_batches": 4} | settings)
    corpus = tiny_corpus(seed=1 if here and fault == "data" else 0)
    return Trainer(config, corpus, progress=False, process_group=process_group).run().exit_status


if __name__ == "__main__":
    group = init_process_group(lambda message: print_line("train", message))
    with group.join(format_error) as joined:
        status = train(sys.argv[1:], joined)
    sys.exit(status)
