"""How long the parts of a job of several ranks wait for each other."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """Seconds. What a user may want to change, ``training.timeout``, is a key of the config instead.

    Attributes:
        start: until all ranks have connected; applies until the config is read and its ``training.timeout`` is known.
        heartbeat: between two messages of a rank, or of the supervisor, that only say that it is alive.
        handshake: in which a connection must prove that it knows the job's token; others hold a socket that long.
        late_ranks: after a failure, in which ranks that have not connected yet may do so and be ordered to end.
        other_failures: after a failure, in which other ranks may report theirs: the lowest rank is named.
        report_delay: between a collective that failed and the report of it: the supervisor hears of a lost rank first.
        flush: between the error message and the end: a launcher that ends with a rank must have passed it on.
        abort_delay: that ranks leave to the one which ends all: if all abort at once, mpiexec reports a crash.
        exit_status: until a process that has closed its connection has an exit status.
        shutdown: for ranks to end by themselves after a failure, before they are killed.
        linger: for ranks to end after they have left the job, before they are killed.
        poll: between two checks of the processes that were started.
        spin, nap: how long MPI is asked without a pause whether a sum has arrived, and the pauses after that.
    """

    start: float = 120.0
    heartbeat: float = 0.5
    handshake: float = 10.0
    late_ranks: float = 5.0
    other_failures: float = 0.5
    report_delay: float = 3.0
    flush: float = 0.3
    abort_delay: float = 2.0
    exit_status: float = 1.0
    shutdown: float = 2.0
    linger: float = 30.0
    poll: float = 0.02
    spin: float = 0.002
    nap: float = 0.0002


TIMEOUTS = Timeouts()
