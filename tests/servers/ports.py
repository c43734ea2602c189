"""Ports of this machine."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody has."""
    # All are held until the last is known, or the same might be given twice.
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
