"""Which pods share their row-local answers: those whose signatures are equal."""

from collections import OrderedDict
from typing import Final, TypeAlias

from scheduler.api.pods import LabelSet, PodInfo, PodShape
from scheduler.kernel.framework.runtime.plugin_set import ProfilePlugins
from scheduler.kernel.framework.runtime.pod_class import PodClass
from scheduler.kernel.snapshot import Snapshot

_MAX_SIGNATURES: Final = 50_000
_MAX_SIGNED_BYTES: Final = 32 * 2**20
"""Of specifications and labels that are kept for their signatures, as text: pods come and go."""

_SignatureKey: TypeAlias = tuple[PodShape, LabelSet, str, str]
"""All that a plugin may look at when it signs: specification, labels, namespace, node name."""


class PodClasses:
    """The classes of one profile, bounded in bytes, least recently used ones dropped first.

    Attributes:
        hits: pods whose class was known.
        misses: pods whose class was new, or that cannot share.
    """

    def __init__(self, plugins: ProfilePlugins, max_bytes: int) -> None:
        self._plugins = plugins
        self._max_bytes = max_bytes
        self._classes: OrderedDict[tuple[int, ...], PodClass] = OrderedDict()
        self._signatures: dict[_SignatureKey, tuple[int, ...] | None] = {}
        self._signed_bytes = 0
        self.hits = 0
        self.misses = 0

    def class_of(self, pod: PodInfo, snapshot: Snapshot) -> PodClass:
        """The class of the pod; one made for this pod only where nothing can be shared.

        What is kept is about the cluster as it is, and must not hear of a fork.
        """
        signature = None if snapshot.is_fork else self._signature(pod)
        if signature is not None:
            found = self._classes.get(signature)
            if found is not None:
                self.hits += 1
                self._classes.move_to_end(signature)
                return found
        self.misses += 1
        new = PodClass(pod, self._plugins, snapshot)
        if signature is None or self._max_bytes == 0 or new.node_names is not None:
            return new
        self._keep(signature, new, snapshot.table.capacity)
        return new

    @property
    def size_bytes(self) -> int:
        """Memory that the columns of all kept classes take."""
        return sum(c.bytes_per_row * len(c.first) for c in self._classes.values())

    def _keep(self, signature: tuple[int, ...], new: PodClass, capacity: int) -> None:
        self._classes[signature] = new
        most = max(1, self._max_bytes // (new.bytes_per_row * capacity))
        while len(self._classes) > most:
            self._classes.popitem(last=False)

    def _signature(self, pod: PodInfo) -> tuple[int, ...] | None:
        signs = self._plugins.signs
        if signs is None:
            return None
        key = (pod.shape, pod.label_set, pod.namespace, pod.node_name)
        if key in self._signatures:
            return self._signatures[key]
        self._signed_bytes += pod.kept_bytes
        if len(self._signatures) >= _MAX_SIGNATURES or self._signed_bytes > _MAX_SIGNED_BYTES:
            self._signatures.clear()
            for each in signs:
                each.numbers.clear()
            self._signed_bytes = pod.kept_bytes
        numbers = [each.sign(pod) for each in signs]
        signature = tuple(number for number in numbers if number is not None)
        found = signature if len(signature) == len(numbers) else None
        self._signatures[key] = found
        return found
