"""Opens listening sockets; an unspecified address means all interfaces and both IP families.

Source: Go's net.Listen, which takes `0.0.0.0` and `::` as one dual-stack socket.
"""

import errno
import socket
from typing import Final

_BACKLOG: Final = 128
_UNSPECIFIED: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, and probes come from the node
_NO_IPV6: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def listen(address: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """Listen on an IP address; without IPv6 an unspecified one means all of IPv4.

    Raises:
        OSError: the address cannot be listened on.
    """
    if address in _UNSPECIFIED:
        if socket.has_dualstack_ipv6():
            try:
                return socket.create_server(
                    ("::", port),
                    family=socket.AF_INET6,
                    backlog=_BACKLOG,
                    reuse_port=reuse_port,
                    dualstack_ipv6=True,
                )
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        address = _UNSPECIFIED[0]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server(
        (address, port), family=family, backlog=_BACKLOG, reuse_port=reuse_port
    )
