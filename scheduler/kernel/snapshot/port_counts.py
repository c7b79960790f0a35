"""Counts of the pods that hold each host port, by node."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.api.host_ports import HostPort
from scheduler.kernel.snapshot.row_counts import RowCounts

WILDCARD_IP: Final = "0.0.0.0"  # noqa: S104 - the API's word for "every address"


_PortKey: TypeAlias = tuple[str, int]
_ByAddress: TypeAlias = dict[str, RowCounts]


class PortCounts:
    """Pods per node for every host port in use."""

    def __init__(self) -> None:
        self._by_port: dict[_PortKey, _ByAddress] = {}

    def change(self, row: int, ports: Sequence[HostPort], sign: int, capacity: int) -> None:
        """Add the ports of a pod to the counts (`sign` 1) or remove them (-1)."""
        for port in ports:
            by_address = self._by_port.setdefault((port.protocol, port.port), {})
            counts = by_address.setdefault(port.host_ip, RowCounts())
            counts.add(row, sign, capacity)
            if not counts.total:
                del by_address[port.host_ip]
                if not by_address:
                    del self._by_port[port.protocol, port.port]

    def conflicts(self, port: HostPort, size: int) -> NDArray[np.float64] | None:
        """Number of pods on each row that hold the port; None when it is free everywhere.

        Two addresses conflict when they are equal or one of them is the wildcard.
        Source: k8s.io/kube-scheduler framework/types.go HostPortInfo.CheckConflict.
        """
        holders: NDArray[np.float64] | None = None
        for ip, counts in self._by_port.get((port.protocol, port.port), {}).items():
            if WILDCARD_IP in (ip, port.host_ip) or ip == port.host_ip:
                column = counts.column(size)
                holders = column if holders is None else holders + column
        return holders

    def at(self, row: int) -> dict[HostPort, int]:
        """Number of pods on a row that hold each port."""
        return {
            HostPort(ip, protocol, number): int(counts.at(row))
            for (protocol, number), by_address in self._by_port.items()
            for ip, counts in by_address.items()
            if counts.at(row)
        }

    def copy(self) -> "PortCounts":
        """An independent copy."""
        return self.fork(self._by_port)

    def fork(self, ports: Iterable[_PortKey]) -> "PortCounts":
        """A copy in which only the counts of these ports may change; it shares all others."""
        copy = PortCounts()
        copy._by_port = self._by_port.copy()
        for key in ports:
            by_address = self._by_port.get(key, {})
            copy._by_port[key] = {ip: counts.copy() for ip, counts in by_address.items()}
        return copy
