"""Ports for servers that a test starts later."""

import socket


def free_port() -> int:
    """A port of the loopback interface that nobody listens on, and that nobody else is given.

    It stays bound until the process ends: otherwise another test beside this one may get it before
    its server listens. That server can listen all the same, as both ask for SO_REUSEADDR.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    port: int = kept.getsockname()[1]
    kept.detach()
    return port


def has_ipv6() -> bool:
    """Whether this machine has IPv6 on its loopback interface."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
