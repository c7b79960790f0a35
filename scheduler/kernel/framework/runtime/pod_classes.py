"""The classes of pods that share their row-local answers, as their signatures are equal."""

from collections.abc import Hashable
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from scheduler.api.pod_shape import DEVICES
from scheduler.api.pods import PodInfo, PodKind
from scheduler.kernel.framework.runtime.plugin_set import ProfilePlugins
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.snapshot import Snapshot


class Signature(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """The data of pods that row-local plugins read; it lives as long as the kinds of its pods.

    Attributes:
        among: all signatures of the profile that signed.
        is_shared: whether pods with this signature share their answers.
    """

    among: "_Signatures"
    is_shared: bool


_Signatures = WeakValueDictionary[tuple[Hashable, ...], Signature]


class PodClasses:
    """The pod classes of one profile; a class is dropped with the last pod of its signature.

    The classes are bounded in bytes, too: the least recently used one is dropped first.

    Attributes:
        hits: pods whose class was known.
        misses: pods whose class was new, or that cannot share.
    """

    def __init__(self, plugins: ProfilePlugins, max_bytes: int) -> None:
        self._plugins = plugins
        self._max_bytes = max_bytes
        self._signatures: _Signatures = WeakValueDictionary()
        self._classes: WeakKeyDictionary[Signature, PodClass] = WeakKeyDictionary()
        self._latest: PodClass | None = None
        self._signed_under: tuple[Hashable, ...] = ()
        self.hits = 0
        self.misses = 0

    def class_of(self, pod: PodInfo, snapshot: Snapshot) -> PodClass:
        """Return the class of the pod; a new one for this pod alone if it shares no answers.

        Cached classes hold answers about the real cluster, so a fork never uses them.
        """
        signature = None if snapshot.is_fork else self._signature(pod)
        if signature is not None:
            found = self._classes.get(signature)
            if found is not None:
                self.hits += 1
                if found is not self._latest:
                    self._latest = self._classes[signature] = self._classes.pop(signature)
                return found
        self.misses += 1
        new = PodClass(_representative(pod), self._plugins, snapshot)
        if signature is not None and not new.plugins.narrows:
            self._keep(signature, new, snapshot.table.capacity)
        return new

    @property
    def size_bytes(self) -> int:
        """The most memory that all kept classes take."""
        return sum(c.size_bytes(len(c.first)) for c in self._classes.values())

    def _keep(self, signature: Signature, new: PodClass, capacity: int) -> None:
        self._latest = self._classes[signature] = new
        most = max(1, self._max_bytes // new.size_bytes(capacity))
        while len(self._classes) > most:
            del self._classes[next(iter(self._classes))]

    def _signature(self, pod: PodInfo) -> Signature | None:
        """The signature of a pod that shares its answers; in-tree plugins sign once for a kind."""
        if self._plugins.signs is None or not self._max_bytes:
            return None
        if pod.needs & DEVICES:
            self._look_around()
        found = pod.kind.signature
        if pod.pod.node_name:
            # The kind does not include the node.
            found = self._signed(pod)
        elif (
            not isinstance(found, Signature)
            or found.among is not self._signatures
            # Nor does it include volumes and claims, which other plugins may sign.
            or not self._plugins.signs_kinds
        ):
            found = pod.kind.signature = self._signed(pod)
        return found if found.is_shared else None

    def _look_around(self) -> None:
        """Drop all signatures and classes when `signs_under` of a plugin has changed."""
        under = tuple([ask() for ask in self._plugins.signs_under])
        if under != self._signed_under:
            self._signed_under = under
            self._signatures, self._classes = WeakValueDictionary(), WeakKeyDictionary()
            self._latest = None

    def _signed(self, pod: PodInfo) -> Signature:
        parts = tuple([sign(pod) for sign in self._plugins.signs or ()])
        if None in parts:
            return Signature(self._signatures, is_shared=False)
        found = self._signatures.get(parts)
        if found is None:
            found = self._signatures[parts] = Signature(self._signatures, is_shared=True)
        return found


def _representative(pod: PodInfo) -> PodInfo:
    """Copy the pod with a new kind: the pod's own kind keeps the class alive, and must be freed."""
    kind = pod.kind
    return PodInfo(pod.pod, PodKind(kind.shape, kind.namespace, kind.labels, kind.owners))
