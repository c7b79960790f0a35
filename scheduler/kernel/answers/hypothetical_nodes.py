"""Gives new nodes the pods, CSI drivers and devices of existing ones, for trials."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from scheduler.api.pods import PodInfo
from scheduler.kernel.devices.claim_catalog import ClaimCatalog
from scheduler.kernel.framework.runtime.shared_states import SharedStates
from scheduler.kernel.framework.services import PluginServices
from scheduler.kernel.snapshot import Snapshot
from scheduler.kernel.volumes.catalog import CSI_NODE, VolumeCatalog


class HypotheticalNodes:
    """Shows plugins the CSI drivers and devices of new nodes during a trial."""

    def __init__(self, services: PluginServices, states: SharedStates) -> None:
        self._services = services
        self._states = states
        self._volumes: VolumeCatalog | None = None
        """The volumes of `_states`, if they are a fork."""

    @contextmanager
    def shown(self, snapshot: Snapshot) -> Iterator[None]:
        """Show the nodes of a snapshot, new ones with the drivers that they were given.

        Raises:
            PluginError: the catalog of volumes cannot be forked.
        """
        self._fork_volumes()
        with self._services.on_fork(snapshot, self._states):
            yield

    @contextmanager
    def with_devices(self, node: str, like: str, snapshot: Snapshot) -> Iterator[None]:
        """Show a new node with the devices of the node `like`, other nodes without any.

        Raises:
            PluginError: the catalog of claims cannot be forked.
        """
        states = self._states.with_own(ClaimCatalog, lambda known: known.for_new_node(like, node))
        with self._services.on_fork(snapshot, states):
            yield

    def give_drivers(self, node: str, like: str) -> None:
        """Give a new node the CSI drivers of the node `like`, with their limits, from now on.

        Raises:
            PluginError: the catalog of volumes cannot be forked.
        """
        self._fork_volumes()
        if self._volumes is not None and like in self._volumes.csi_nodes:
            known = self._volumes.csi_nodes
            self._volumes.on_event(CSI_NODE, known.get(node), known[like].of(node))

    def _fork_volumes(self) -> None:
        if self._volumes is None and self._states.known(VolumeCatalog) is not None:
            self._states = self._states.with_own(VolumeCatalog)
            self._volumes = self._states.known(VolumeCatalog)


def tied_pods(pods: Iterable[PodInfo], node: str) -> list[PodInfo]:
    """Return the pods that a new node runs from its start.

    They are like the pods of DaemonSets and the static pods among `pods`, the pods of the node that
    the new one is like.
    """
    return [copy_on(node, pod) for pod in pods if pod.is_tied_to_node and not pod.is_terminating]


def copy_on(node: str, pod: PodInfo) -> PodInfo:
    """Return a copy of a pod on a new node, whose name ends the names and UIDs of its pods.

    The copy has the volumes of its original, and no devices.
    """
    return renamed(pod, node).on_node(node)


def renamed(pod: PodInfo, ending: str) -> PodInfo:
    """Return a copy of a pod, whose name and UID have an ending."""
    metadata = pod.pod.metadata
    own = replace(metadata, name=f"{metadata.name}-{ending}", uid=f"{metadata.uid}-{ending}")
    return PodInfo(replace(pod.pod, metadata=own), pod.kind)
