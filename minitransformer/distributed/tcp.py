"""The plainest communicator: rank 0 gathers all arrays, adds them in the order of the ranks and sends the sum to all.

It needs nothing but sockets, and is the oracle that the tests compare the other communicators with.
"""

import asyncio
import socket

import numpy as np

from minitransformer.distributed.communicator import Communicator, Store
from minitransformer.distributed.connections import connect, receive_into, serve


class TcpCommunicator(Communicator):
    """Arrays through TCP, all of them by way of rank 0. Its sums are in the order of the ranks by nature.

    token: the secret that all ranks of the job know; connections without it are refused
    host: rank 0 listens at this address of its machine
    """

    def __init__(self, rank: int, size: int, store: Store, *, token: str, host: str = "127.0.0.1"):
        super().__init__(rank, size, store, deterministic=True)
        with self.waiting():
            # At rank 0 the connections to ranks 1, 2, ...; elsewhere the one to rank 0.
            self._others = self._accept_all(token, host) if rank == 0 else [self._connect(token)]
        for connection in self._others:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _accept_all(self, token: str, host: str) -> list[socket.socket]:
        server = socket.create_server((host, 0))
        self.store.put("tcp", f"{host}:{server.getsockname()[1]}")

        async def accept() -> list[socket.socket]:
            accepted: asyncio.Queue[socket.socket] = asyncio.Queue()
            serving = asyncio.create_task(serve(server, token, accepted.put))
            connections = [await accepted.get() for _ in range(1, self.size)]
            serving.cancel()
            return connections

        by_rank = {}
        for connection in asyncio.run(accept()):
            connection.settimeout(None)
            number = bytearray(4)
            receive_into(connection, number)
            by_rank[int.from_bytes(number, "big")] = connection
        return [by_rank[rank] for rank in range(1, self.size)]

    def _connect(self, token: str) -> socket.socket:
        host, _, port = self.store.get("tcp").rpartition(":")
        connection = connect((host, int(port)), token)
        connection.sendall(self.rank.to_bytes(4, "big"))
        return connection

    def all_reduce_sum(self, array: np.ndarray) -> None:
        with self.waiting():
            if self.rank == 0:
                other = np.empty_like(array)
                for connection in self._others:
                    receive_into(connection, _bytes_of(other))
                    array += other
                for connection in self._others:
                    connection.sendall(_bytes_of(array))
            else:
                self._others[0].sendall(_bytes_of(array))
                receive_into(self._others[0], _bytes_of(array))

    def close(self) -> None:
        for connection in self._others:
            connection.close()


def _bytes_of(array: np.ndarray) -> memoryview:
    return memoryview(array.reshape(-1)).cast("B")
