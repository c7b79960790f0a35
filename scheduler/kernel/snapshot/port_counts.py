"""Which host ports are taken on which nodes."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import HostPort
from scheduler.kernel.snapshot.row_counts import RowCounts

WILDCARD_IP: Final = "0.0.0.0"  # noqa: S104 - the API's word for "every address"


_PortKey: TypeAlias = tuple[str, int]
_ByAddress: TypeAlias = dict[str, RowCounts]


class PortCounts:
    """Pods per node for every host port in use.

    A fork looks at its original for ports that it has not changed itself.
    """

    def __init__(self) -> None:
        self._by_port: dict[_PortKey, _ByAddress] = {}
        self._original: PortCounts | None = None

    def change(self, row: int, ports: Sequence[HostPort], sign: int, capacity: int) -> None:
        """Count the ports of a pod in (`sign` 1) or out (-1)."""
        for port in ports:
            by_address = self._own((port.protocol, port.port))
            counts = by_address.setdefault(port.host_ip, RowCounts())
            counts.add(row, sign, capacity)
            if not counts.total:
                del by_address[port.host_ip]
                if not by_address and self._original is None:
                    del self._by_port[port.protocol, port.port]

    def conflicts(self, port: HostPort, size: int) -> NDArray[np.float64] | None:
        """How many pods of each row hold the port; None when it is free everywhere.

        Two addresses conflict when they are equal or one of them is the wildcard.
        Source: k8s.io/kube-scheduler framework/types.go HostPortInfo.CheckConflict.
        """
        holders: NDArray[np.float64] | None = None
        for ip, counts in self.find((port.protocol, port.port)).items():
            if WILDCARD_IP in (ip, port.host_ip) or ip == port.host_ip:
                column = counts.column(size)
                holders = column if holders is None else holders + column
        return holders

    def at(self, row: int) -> dict[HostPort, int]:
        """How many pods of a row hold each port."""
        return {
            HostPort(ip, protocol, number): int(counts.at(row))
            for protocol, number in self.keys()
            for ip, counts in self.find((protocol, number)).items()
            if counts.at(row)
        }

    def fork(self) -> "PortCounts":
        """A copy that can be changed; it must be `detach`ed before this one is."""
        copy = PortCounts()
        copy._original = self
        return copy

    def detach(self) -> None:
        """Make a fork's own what it has looked up in its original so far."""
        self._by_port = {key: self._own(key) for key in self.keys() if self.find(key)}
        self._original = None

    def keys(self) -> set[_PortKey]:
        """The protocols and ports that a pod holds or, in a fork, has given back."""
        known = set() if self._original is None else self._original.keys()
        return known.union(self._by_port)

    def find(self, key: _PortKey) -> _ByAddress:
        """The pods per row that hold a port, by address. Not to be written to."""
        found = self._by_port.get(key)
        if found is None:
            return {} if self._original is None else self._original.find(key)
        return found

    def _own(self, key: _PortKey) -> _ByAddress:
        own = self._by_port.get(key)
        if own is None:
            known = {} if self._original is None else self._original.find(key)
            own = self._by_port[key] = {ip: counts.copy() for ip, counts in known.items()}
        return own
