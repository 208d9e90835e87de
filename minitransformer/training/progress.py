"""The progress bar of a run, and messages above it. With several ranks, only rank 0 shows them.

What cannot be written is lost: training must not end because nobody reads its log, or because the log's disk is full.
(tqdm itself tolerates a terminal that was closed.)
"""

import sys
import threading
from contextlib import suppress
from typing import TextIO

from tqdm import tqdm

from minitransformer.errors import printable
from minitransformer.training.metrics import Meter


class Lines:
    """Writes each state of a bar to ``file`` as a whole line, so that the next message begins on a new line."""

    def __init__(self, file: TextIO):
        self._file = file

    def write(self, text: str) -> None:
        if drawn := text.strip():
            with suppress(OSError):
                self._file.write(f"{drawn}\n")

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


class Progress:
    """Writes to standard error.

    is_rank_0: if False, nothing is written   with_bar: show a bar
    """

    def __init__(self, is_rank_0: bool, with_bar: bool):
        self._is_rank_0, self._with_bar = is_rank_0, with_bar
        tqdm.set_lock(threading.RLock())  # its default is a system semaphore, which a killed process leaves behind

    def bar(self, done: int, total: int) -> tqdm:
        """A bar of ``total`` updates, as a context manager."""
        # A file cannot redraw the bar in place: there it gets a new line every 30 seconds.
        pause, file = (0.2, sys.stderr) if sys.stderr.isatty() else (30.0, Lines(sys.stderr))
        hidden = not (self._is_rank_0 and self._with_bar)
        return tqdm(total=total, initial=min(done, total), unit="update", disable=hidden, mininterval=pause, file=file)

    def show(self, bar: tqdm, meter: Meter, update: int, learning_rate: float) -> None:
        """Show that ``update`` updates are done, with the means of ``meter``."""
        if meter.updates:  # none, if all since the last line were skipped
            seen = meter.means()
            means = f"loss {seen['loss']:.3f}, ppl {seen['ppl']:.2f}, {seen['tokens_per_second']:.0f} tgt tokens/s"
            bar.set_postfix_str(f"{means}, lr {learning_rate:.2e}", refresh=False)
        bar.update(update - bar.n)

    def write(self, message: str) -> None:
        if self._is_rank_0 and message:
            with suppress(OSError):
                tqdm.write(printable(message, 2000), file=sys.stderr)
