"""Where a port is open: an unspecified address means both IP families, as in Go."""

import socket

import pytest

from scheduler.daemon.serving.listening import listen
from tests.support.ports import has_ipv6

UNSPECIFIED = ("0.0.0.0", "::")  # noqa: S104 - what is tested


def is_reached(listener: socket.socket, address: str) -> bool:
    """Whether a client of this address gets a connection."""
    try:
        socket.create_connection((address, listener.getsockname()[1]), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6")
@pytest.mark.parametrize("address", UNSPECIFIED)
def test_an_unspecified_address_means_both_families(address: str) -> None:
    """Probes of a cluster without IPv4 come from IPv6 addresses."""
    with listen(address, 0) as listener:
        assert is_reached(listener, "127.0.0.1")
        assert is_reached(listener, "::1")


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6")
@pytest.mark.parametrize(("address", "other"), [("127.0.0.1", "::1"), ("::1", "127.0.0.1")])
def test_another_address_means_itself(address: str, other: str) -> None:
    with listen(address, 0) as listener:
        assert is_reached(listener, address)
        assert not is_reached(listener, other)


@pytest.mark.parametrize("address", UNSPECIFIED)
def test_without_ipv6_an_unspecified_address_means_ipv4(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may have it switched off."""
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    with listen(address, 0) as listener:
        assert listener.family == socket.AF_INET
        assert is_reached(listener, "127.0.0.1")


def test_a_port_in_use_is_an_error() -> None:
    """Also if only IPv4 has it: the other family alone would hide that."""
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match="in use"):
        listen("0.0.0.0", other.getsockname()[1])  # noqa: S104 - what is tested
