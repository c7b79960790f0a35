"""The feature gates of kube-scheduler that are off by default in 1.36 and can be turned on here."""

from collections.abc import Iterable
from typing import Final

STORAGE_CAPACITY_SCORING: Final = "StorageCapacityScoring"
"""VolumeBinding scores nodes by the storage that they would have left."""

KNOWN: Final = frozenset({STORAGE_CAPACITY_SCORING})


def turned_on(settings: Iterable[str]) -> frozenset[str]:
    """The gates that are on after settings such as `Name=true`; the last one of a name counts."""
    pairs = dict(setting.split("=") for setting in settings)
    return frozenset(name for name, value in pairs.items() if value == "true")
