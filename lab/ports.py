"""Ports of servers that are started again on the same one."""

import random
import socket
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 20_000
ATTEMPTS = 200


def free_port(address: str = "127.0.0.1") -> int:
    """Give a port of an address that nobody listens on now; RuntimeError where none is found.

    The kernel gives it to nobody by itself: it is below those that clients and listeners on port 0 get, so that it is
    still free when a server that was killed comes back.
    """
    first = int(RANGE.read_text().split()[0])
    choice = random.SystemRandom()
    for _ in range(ATTEMPTS):
        port = choice.randrange(LOWEST, first) if first > LOWEST else 0
        with socket.socket() as probe:
            # As servers do: what a connection has left behind for a minute is no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise RuntimeError(f"{address} has no free port from {LOWEST} to {first}")
