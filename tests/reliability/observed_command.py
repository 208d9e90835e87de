"""The command ``minitransformer`` with notes of what each rank does. Notes outlive SIGKILL; the command is unchanged.

    MINITRANSFORMER_NOTES=FILE python observed_command.py train CONFIG ...

A note is one line, appended to FILE by a single write: seconds of the monotonic clock, rank, event, values.

    running 12                    training begins, or resumes, after update 12
    batch 13 52 5f3a09c1          micro-batch 52 of update 13 is about to be computed; checksum of its examples
    saving 14, saved 14           a checkpoint is about to be written; it is on the disk
    validating, validated
    done 80                       the last update of this process
"""

import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from functools import wraps

NOTES = "MINITRANSFORMER_NOTES"


def open_notes() -> Callable[..., None]:
    """The function that writes a note."""
    from minitransformer.distributed.supervision.rank_info import find_rank_info

    notes, rank = os.open(os.environ[NOTES], os.O_WRONLY | os.O_APPEND | os.O_CREAT), find_rank_info().rank

    def note(*words: object) -> None:
        os.write(notes, (" ".join(map(str, (time.monotonic(), rank, *words))) + "\n").encode())

    return note


def observe(note: Callable[..., None]) -> None:
    """Let the functions that training calls write notes."""
    from minitransformer.distributed.supervision import launch
    from minitransformer.training import trainer
    from minitransformer.training.trainer import MicroBatches, Validation

    own, save, run = MicroBatches.own, trainer.save_checkpoint, trainer.Trainer.run
    measure, launched = Validation.measure, launch.Launch

    @wraps(own)
    def noted_own(self: MicroBatches, update: int) -> list:
        batches, last = own(self, update), update * self.per_update
        for number, batch in zip(range(last - self.per_update + self.rank, last, self.size), batches, strict=True):
            ids = b"".join(array.tobytes() for array in (batch.rows, batch.src, batch.tgt_in, batch.tgt_out))
            note("batch", update, number, f"{zlib.crc32(ids):08x}")
        return batches

    @wraps(save)
    def noted_save(*arguments, update: int, **facts) -> None:
        note("saving", update)
        save(*arguments, update=update, **facts)
        note("saved", update)

    @wraps(measure)
    def noted_measure(self: Validation, model: object) -> dict:
        note("validating")
        values = measure(self, model)
        note("validated")
        return values

    @wraps(run)
    def noted_run(self: trainer.Trainer) -> object:
        note("running", self.update)
        outcome = run(self)
        note("done", outcome.update)
        return outcome

    MicroBatches.own, trainer.save_checkpoint, Validation.measure = noted_own, noted_save, noted_measure
    trainer.Trainer.run = noted_run
    launch.Launch = lambda program, *options: launched([__file__, *program[2:]], *options)  # not -m minitransformer


if __name__ == "__main__":
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in __main__.py
    from minitransformer.cli.main import main

    observe(open_notes())
    signal.signal(signal.SIGINT, before)
    sys.exit(main())
