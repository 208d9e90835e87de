"""The command ``minitransformer``, which also logs what each rank does. The log survives SIGKILL.

    MINITRANSFORMER_EVENT_LOG=FILE python observed_command.py train CONFIG ...

An event is one line, appended to FILE by a single write: seconds of the monotonic clock, rank, event, values.

    joined 4711                   the process of this rank begins
    running 12                    training starts or resumes after update 12
    batch 13 52 5f3a09c1          micro-batch 52 of update 13 is about to be computed; checksum of its examples
    saving 14, saved 14           a checkpoint is about to be written, has been written
    validating, validated
    done 80                       the last update of this process
"""

import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from functools import partial, wraps

EVENT_LOG = "MINITRANSFORMER_EVENT_LOG"


def open_log(rank: int) -> Callable[..., None]:
    """The function that logs an event."""
    log = os.open(os.environ[EVENT_LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(*fields: object) -> None:
        os.write(log, (" ".join(map(str, (time.monotonic(), rank, *fields))) + "\n").encode())

    return write


def observe(rank: int) -> None:
    """Wrap functions that training calls in this process, so that they log events."""
    from minitransformer.training import trainer
    from minitransformer.training.trainer import MicroBatches, Validation

    log = open_log(rank)
    log("joined", os.getpid())
    of_rank, save, run, measure = MicroBatches.of_rank, trainer.save_checkpoint, trainer.Trainer.run, Validation.measure

    @wraps(of_rank)
    def logged_of_rank(self: MicroBatches, update: int) -> list:
        batches, last = of_rank(self, update), update * self.per_update
        for number, batch in zip(range(last - self.per_update + self.rank, last, self.size), batches, strict=True):
            ids = b"".join(array.tobytes() for array in (batch.rows, batch.src, batch.tgt_in, batch.tgt_out))
            log("batch", update, number, f"{zlib.crc32(ids):08x}")
        return batches

    @wraps(save)
    def logged_save(*arguments, update: int, **facts) -> None:
        log("saving", update)
        save(*arguments, update=update, **facts)
        log("saved", update)

    @wraps(measure)
    def logged_measure(self: Validation, model: object) -> dict:
        log("validating")
        values = measure(self, model)
        log("validated")
        return values

    @wraps(run)
    def logged_run(self: trainer.Trainer) -> object:
        log("running", self.update)
        outcome = run(self)
        log("done", outcome.update)
        return outcome

    MicroBatches.of_rank, trainer.save_checkpoint, Validation.measure = logged_of_rank, logged_save, logged_measure
    trainer.Trainer.run = logged_run


def observed_work(work: Callable[..., int], process_group: object) -> int:
    """The work of a rank that ``launch`` started."""
    observe(process_group.rank)
    return work(process_group)


def observe_command(words: list[str]) -> None:
    """Observe what the command ``minitransformer WORDS`` does, in this process or in the ranks that it starts."""
    from minitransformer.distributed import launch
    from minitransformer.distributed.process_group import find_ranks

    if words[:1] != ["launch"]:
        observe(find_ranks()[0])
        return
    launched = launch.launch
    launch.launch = lambda work, *options: launched(partial(observed_work, work), *options)


if __name__ == "__main__":
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in __main__.py
    from minitransformer.cli.main import main

    observe_command(sys.argv[1:])
    signal.signal(signal.SIGINT, before)
    sys.exit(main())
