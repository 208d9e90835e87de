"""The plainest communicator: rank 0 gathers all arrays, adds them in the order of the ranks and sends the sum to all.

It needs nothing but sockets, and is the oracle that the tests compare the other communicators with.
"""

import socket
from typing import Any

import numpy as np

from minitransformer.distributed.communicator import Communicator, Store
from minitransformer.distributed.listener import Listener, connect, receive_exactly


class TcpCommunicator(Communicator):
    """Arrays through TCP, all of them by way of rank 0. Its sums are in the order of the ranks by nature.

    token: the secret that all ranks of the job know; who does not is no rank
    host: rank 0 listens at this address of its machine
    options: those of ``Communicator``
    """

    def __init__(self, rank: int, size: int, store: Store, *, token: str, host: str = "127.0.0.1", **options: Any):
        super().__init__(rank, size, store, **options | {"deterministic": True})
        with self.waiting():
            # At rank 0 the connections to ranks 1, 2, ...; elsewhere the one to rank 0.
            self._others = self._accept_all(token, host) if rank == 0 else [self._connect(token)]
        for connection in self._others:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(None)

    def _accept_all(self, token: str, host: str) -> list[socket.socket]:
        met: dict[int, socket.socket] = {}

        def welcome(connection: socket.socket) -> None:
            rank = int.from_bytes(receive_exactly(connection, 4), "big")
            if not 0 < rank < self.size or rank in met:
                raise ConnectionError(f"all_reduce_sum: ranks must be 1..{self.size - 1}, each once, got {rank}")
            met[rank] = connection

        listener = Listener(host, 0, token, welcome, self._timeouts)
        self.store.put("tcp", f"{host}:{listener.port}")
        while len(met) < self.size - 1:
            listener.poll(self._timeouts.heartbeat)
        listener.close()
        return [met[rank] for rank in sorted(met)]

    def _connect(self, token: str) -> socket.socket:
        host, _, port = self.store.get("tcp").rpartition(":")
        connection = connect((host, int(port)), token, self._timeouts.start, self._timeouts)
        connection.sendall(self.rank.to_bytes(4, "big"))
        return connection

    def all_reduce_sum(self, array: np.ndarray) -> None:
        with self.waiting():
            if self.rank == 0:
                other = np.empty_like(array)
                for connection in self._others:
                    _receive(connection, other)
                    array += other
            else:
                self._others[0].sendall(_bytes_of(array))
            self._spread(array)

    def broadcast(self, array: np.ndarray, root: int = 0) -> None:
        with self.waiting():
            if root != 0 and self.rank == root:
                self._others[0].sendall(_bytes_of(array))
            elif root != 0 and self.rank == 0:
                _receive(self._others[root - 1], array)
            self._spread(array)

    def barrier(self) -> None:
        self.all_reduce_sum(np.zeros(1))

    def _spread(self, array: np.ndarray) -> None:
        """array = the array of rank 0"""
        for connection in self._others:
            if self.rank == 0:
                connection.sendall(_bytes_of(array))
            else:
                _receive(connection, array)

    def finish(self) -> None:
        pass  # every sum that was started is done

    def close(self) -> None:
        for connection in self._others:
            connection.close()


def _bytes_of(array: np.ndarray) -> memoryview:
    return memoryview(array.reshape(-1)).cast("B")


def _receive(connection: socket.socket, array: np.ndarray) -> None:
    """Fill ``array`` with the bytes that come."""
    room = _bytes_of(array)
    while room:
        received = connection.recv_into(room)
        if not received:
            raise ConnectionError("another rank has closed its connection")
        room = room[received:]
