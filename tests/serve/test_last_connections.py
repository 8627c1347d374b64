"""What the kernel does with connections to a server that stops."""

from __future__ import annotations

import socket
import sys

import pytest

from multidomain.serve.server import ignore_new_connections, listen


@pytest.mark.skipif(sys.platform != "linux", reason="filters of sockets are Linux's")
def test_connections_that_wait_are_kept_and_new_ones_dropped() -> None:
    with listen("127.0.0.1", 0) as listener:
        listener.listen()
        address = listener.getsockname()
        with socket.create_connection(address, timeout=5) as waits:
            waits.sendall(b"before")
            ignore_new_connections(listener)
            waits.sendall(b" and after")
            with pytest.raises(TimeoutError):
                socket.create_connection(address, timeout=0.5)
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.recv(100) == b"before and after"
