"""Which host ports are taken on which nodes."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pods import HostPort
from scheduler.snapshot.row_counts import RowCounts

WILDCARD_IP: Final = "0.0.0.0"  # noqa: S104 - the API's word for "every address"


class PortCounts:
    """Pods per node for every host port in use."""

    def __init__(self) -> None:
        self._by_port: dict[tuple[str, int], dict[str, RowCounts]] = {}

    def change(self, row: int, ports: Sequence[HostPort], sign: int, capacity: int) -> None:
        """Count the ports of a pod in (`sign` 1) or out (-1)."""
        for port in ports:
            by_ip = self._by_port.setdefault((port.protocol, port.port), {})
            counts = by_ip.setdefault(port.host_ip, RowCounts())
            counts.add(row, sign, capacity)
            if not counts.total:
                del by_ip[port.host_ip]
                if not by_ip:
                    del self._by_port[(port.protocol, port.port)]

    def conflicts(self, port: HostPort, size: int) -> NDArray[np.float64] | None:
        """How many pods of each row hold the port; None when it is free everywhere.

        Two addresses conflict when they are equal or one of them is the wildcard.
        Source: k8s.io/kube-scheduler framework/types.go HostPortInfo.CheckConflict.
        """
        holders: NDArray[np.float64] | None = None
        for ip, counts in self._by_port.get((port.protocol, port.port), {}).items():
            if WILDCARD_IP in (ip, port.host_ip) or ip == port.host_ip:
                column = counts.column(size)
                holders = column if holders is None else holders + column
        return holders

    def fork(self) -> "PortCounts":
        """A copy that can be changed without touching this one."""
        copy = PortCounts()
        for key, by_ip in self._by_port.items():
            copy._by_port[key] = {ip: counts.copy() for ip, counts in by_ip.items()}
        return copy
