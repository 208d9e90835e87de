"""No network: on PYTHONPATH of a Python process, this refuses every connection that is not to the machine itself."""

import socket

_connect = socket.socket.connect
_look_up = socket.getaddrinfo
HERE = {"localhost", "127.0.0.1", "::1", "", None}


def connect(self, address):
    if self.family != getattr(socket, "AF_UNIX", None) and address[0] not in HERE:
        raise OSError(f"offline: lessons must not connect to {address[0]}")
    return _connect(self, address)


def getaddrinfo(host, *arguments, **options):
    if host not in HERE:
        raise OSError(f"offline: lessons must not look up {host}")
    return _look_up(host, *arguments, **options)


socket.socket.connect = connect
socket.getaddrinfo = getaddrinfo
