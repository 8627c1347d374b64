"""Clients that hold what they are given, as many as one process can have: heads and bodies that never end.

    python attackers.py PORT HEADS BODIES FIRST LAST

Their addresses are 127.0.0.FIRST to 127.0.0.LAST. Whoever is disconnected comes back. Prints a line once all have
connected, and runs until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count

HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "
BODIES = [  # none of them has the token
    f"{method} {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n".encode()
    for method, path in (("GET", "/healthz"), ("POST", "/v1/predict"), ("GET", "/"), ("POST", "/-/reload"))
]
PAUSE_SECONDS = 3.0  # before coming back
DRIP_SECONDS = 1.0


async def hold(port: int, address: str, beginning: bytes, connected: asyncio.Semaphore) -> None:
    """Send the beginning of a request and then a byte a second; again and again."""
    for attempt in count():
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            writer.write(beginning)
            if not attempt:
                connected.release()
            while not (reader.at_eof() or writer.is_closing()):
                writer.write(b"x")
                await asyncio.sleep(DRIP_SECONDS)
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(PAUSE_SECONDS)


async def main(port: int, heads: int, bodies: int, first: int, last: int) -> None:
    connected = asyncio.Semaphore(0)
    beginnings = [HEAD] * heads + [BODIES[i % len(BODIES)] for i in range(bodies)]
    addresses = [f"127.0.0.{first + i % (last - first + 1)}" for i in range(len(beginnings))]
    tasks = []
    for address, beginning in zip(addresses, beginnings, strict=True):
        tasks.append(asyncio.create_task(hold(port, address, beginning, connected)))
        await asyncio.sleep(0.001)
    for _ in tasks:
        await connected.acquire()
    print("all have connected", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
