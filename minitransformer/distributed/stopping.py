"""The update after which all ranks stop, agreed on through the store; as long as no rank wants to, nothing is sent.

A signal may come to one rank or to all, to each at another moment. If they did not stop after the same update, some
would wait forever in a sum to which the others do not come.

1. A rank that wants to stop sets a key in the store, to which all ranks listen.
2. The thread in which a rank is notified freezes it: it puts the number of the last update that the rank has begun into
   the store. This may happen in the middle of an update; a lock keeps it apart from the beginning of one.
3. A frozen rank that would begin an update waits for the numbers of all ranks, and begins it only if it is not beyond
   the highest number.

All stop after the highest number: the rank that set it has begun that update, and no rank a later one, as each number
was final when it was set. There is no deadlock: the numbers come from the notified threads, even if the others are in
an update that waits for this rank. It does not matter how far the ranks are apart (with NCCL, for whose sums no host
waits, by many updates), which of them want to stop, or how often; nor that a rank begins to listen only later, as the
store keeps values. If a rank dies before it has set its number, the job ends as in a collective.
"""

import threading

from minitransformer.distributed.communicator import Communicator

STOP, BEGUN = "stop", "begun"
"""The keys in the store."""


class CommonStop:
    """Made once in a job, by all ranks, each after the same number of updates, ``done``."""

    def __init__(self, ranks: Communicator, done: int):
        self._ranks, self._store = ranks, ranks.store
        self._begun, self._frozen = done, False
        self._last: int | None = None  # the update after which all stop, when it is known
        self._lock = threading.Lock()
        if self._store is not None:
            self._store.listen(STOP, self._freeze)

    def may_begin(self, update: int, wanted: bool) -> bool:
        """Whether this rank begins ``update``; the same on all ranks.

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
