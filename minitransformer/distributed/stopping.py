"""The update after which all ranks stop, agreed on by way of the store; while nobody wants to stop, nothing is sent.

A signal may come to one rank or to all, to each at another moment. If they did not stop after the same update, some
would wait forever in a sum to which the others do not come.

1. A rank that wants to stop leaves a value in the store, of which all ranks are told.
2. Each rank that hears of it is frozen: it leaves the number of the last update that it has begun, and begins no other
   of its own accord. The thread that listens does so, in the midst of an update too; a lock makes it one step with the
   beginning of an update.
3. A frozen rank that wants to begin an update waits for the numbers of all, and begins it if it is not beyond the
   highest.

All stop after the highest number: the rank that left it has begun that update, and no rank a later one, as each number
was final when it was left. Nobody waits in a circle: what a rank waits for comes from listening threads, even if the
others are in an update that waits for this rank. It does not matter how far the ranks are apart (with NCCL, for whose
sums no host waits, by many updates), which of them want to stop, or how often; nor that a rank begins to listen only
later, as the store keeps values. If a rank dies before it has left its number, the job ends as in a collective.
"""

import threading

from minitransformer.distributed.communicator import Communicator

STOP, BEGUN = "stop", "begun"
"""The keys in the store."""


class CommonStop:
    """Made once in a job, by all ranks, each after ``done`` updates, the same number on all of them."""

    def __init__(self, ranks: Communicator, done: int):
        self._ranks, self._store = ranks, ranks.store
        self._begun, self._frozen = done, False
        self._last: int | None = None  # the update after which all stop, when it is known
        self._lock = threading.Lock()
        if self._store is not None:
            self._store.listen(STOP, self._freeze)

    def may_begin(self, update: int, wanted: bool) -> bool:
        """Whether this rank goes on with ``update``; the same on all ranks.

        wanted: this rank wants to stop, and has not begun ``update``
        """
        if self._store is None:
            return not wanted
        if wanted and not self._frozen:
            self._store.put(STOP, "")
            self._freeze()
        with self._lock:
            if not self._frozen:
                self._begun = update
                return True
        if self._last is None:
            with self._ranks.waiting():
                self._last = max(int(self._store.get(f"{BEGUN}/{rank}")) for rank in range(self._ranks.size))
        return update <= self._last

    def _freeze(self) -> None:
        with self._lock:
            if self._frozen:
                return
            self._frozen = True
        self._store.put(f"{BEGUN}/{self._ranks.rank}", str(self._begun))
