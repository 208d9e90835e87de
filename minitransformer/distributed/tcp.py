"""The plainest engine: rank 0 gathers all arrays, adds them in the order of the ranks and sends the sum to all.

It needs nothing but sockets, and is the oracle that the tests compare the other engines with.
"""

from __future__ import annotations

import os
import socket

import numpy as np

from minitransformer.distributed.communicator import Communicator
from minitransformer.distributed.supervision.client import SupervisorClient

PATIENCE = 5.0  # seconds in which whoever connects must say which rank it is


class TcpCommunicator(Communicator):
    """Arrays through TCP, all of them by way of rank 0. Its sums are in the order of the ranks by nature."""

    def __init__(self, member: SupervisorClient):
        super().__init__(member.rank, member.size, member, fixed=True)
        self._others: list[socket.socket] = []  # at rank 0 those of ranks 1, 2, ...; elsewhere that of rank 0
        with self.waiting():
            if self.rank == 0:
                self._meet_all(member)
            else:
                host, _, port = member.get("naive").rpartition(":")
                connection = socket.create_connection((host, int(port)))
                connection.sendall(self.rank.to_bytes(4, "big"))
                self._others = [connection]
        for connection in self._others:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _meet_all(self, member: SupervisorClient) -> None:
        with socket.create_server(("", 0)) as server:
            member.put("naive", f"{member.host}:{server.getsockname()[1]}")
            met = {}
            while len(met) < self.size - 1:
                connection = server.accept()[0]
                rank = _said_rank(connection)
                if 0 < rank < self.size and rank not in met:
                    met[rank] = connection
                else:  # no rank of ours
                    connection.close()
        self._others = [met[rank] for rank in sorted(met)]

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

    def abort(self, code: int = 2) -> None:
        os._exit(code)

    def close(self) -> None:
        for connection in self._others:
            connection.close()


def _said_rank(connection: socket.socket) -> int:
    """The rank that the other side says it is; 0, which is no other rank's number, if it is silent or gone again."""
    number = np.zeros(4, np.uint8)
    try:
        connection.settimeout(PATIENCE)
        _receive(connection, number)
        connection.settimeout(None)
    except OSError:
        return 0
    return int.from_bytes(number.tobytes(), "big")


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
