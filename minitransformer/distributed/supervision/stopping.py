"""The update after which all ranks stop, agreed on by the hub; while nobody wants to stop, nothing is sent.

A signal may come to one rank or to all, to each at another moment. If they did not stop after the same update, some
would wait for ever in a sum to which the others do not come.

1. A rank that wants to stop says so to the hub, and the hub to all ranks.
2. Each rank that hears of it is frozen: it tells the number of the last update that it has begun, and begins no other
   of its own accord. Its listening thread does so, in the midst of an update too; a lock makes it one step with the
   beginning of an update.
3. A frozen rank that wants to begin an update waits for the numbers of all, and begins it if it is not beyond the
   highest.

All stop after the highest number: who told it has begun that update, and nobody a later one, as each number was final
when it was told. Nobody waits in a circle: what a rank waits for comes from listening threads, even if the others are
in an update that waits for this rank. How far the ranks are apart does not matter (with NCCL, whose sums no host waits
for, by many updates); nor who wants to stop how often, or that a rank begins to listen only later: the hub keeps words.
If a rank dies before it has told its number, the hub ends the job, as in a collective.
"""

from __future__ import annotations

import threading

from minitransformer.distributed.communicator import Communicator

WISH, BEGUN = "stop", "begun"  # the words at the hub


class CommonStop:
    """Made once in a job, by all ranks, each after the same number of updates, ``done``."""

    def __init__(self, ranks: Communicator, done: int):
        self._member = ranks.member
        self._begun, self._frozen = done, False
        self._last: int | None = None  # the update after which all stop, when it is known
        self._lock = threading.Lock()
        if self._member is not None:
            self._member.listen(WISH, self._freeze)

    def may_begin(self, update: int, wanted: bool) -> bool:
        """Whether this rank goes on with ``update``; the same on all ranks.

        wanted: this rank wants to stop, and has not begun ``update``
        """
        if self._member is None:
            return not wanted
        if wanted and not self._frozen:
            self._member.put(WISH, "")
            self._freeze()
        with self._lock:
            if not self._frozen:
                self._begun = update
                return True
        if self._last is None:
            with self._member.waiting():
                self._last = max(int(self._member.get(f"{BEGUN}/{rank}")) for rank in range(self._member.size))
        return update <= self._last

    def _freeze(self) -> None:
        with self._lock:
            if self._frozen:
                return
            self._frozen = True
        self._member.put(f"{BEGUN}/{self._member.rank}", str(self._begun))
