"""How long the parts of a job of several ranks wait for each other."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """Seconds. What a user may want to change, ``training.timeout``, is a key of the config instead.

    Attributes:
        start: until all ranks have come; holds until the config is read and its ``training.timeout`` is known.
        heartbeat: between two signs of life of a rank or of the supervisor.
        handshake: in which a connection must prove that it knows the job's token; a stranger holds a socket that long.
        accept_pause: without accepting connections after the system had no file descriptor left for one.
        send: in which the other side must take a message of some bytes; else it is stopped or gone.
        late_ranks: after a failure, in which ranks that have not come yet may come and be told of it.
        other_failures: after a failure, in which other ranks may report theirs: the lowest rank is named.
        blame: between a collective that failed and the report of it: the supervisor hears of a lost rank before that.
        flush: between the message and the end: a launcher that ends with a rank must have passed the message on.
        abort_delay: that ranks leave to the one which ends all: if all abort at once, mpiexec reports a crash.
        exit_status: for a process that has closed its connection to become a process that has ended.
        farewell: for ranks to end by themselves after a failure, before they are killed.
        linger: for ranks to end after they said goodbye, before they are killed.
        poll: between two looks at the processes that were started.
        spin, nap: how long MPI is asked without a pause whether a sum has arrived, and the pauses after that.
    """

    start: float = 120.0
    heartbeat: float = 0.5
    handshake: float = 10.0
    accept_pause: float = 1.0
    send: float = 5.0
    late_ranks: float = 5.0
    other_failures: float = 0.5
    blame: float = 3.0
    flush: float = 0.3
    abort_delay: float = 2.0
    exit_status: float = 1.0
    farewell: float = 2.0
    linger: float = 30.0
    poll: float = 0.02
    spin: float = 0.002
    nap: float = 0.0002


TIMEOUTS = Timeouts()
