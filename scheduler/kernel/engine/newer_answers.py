"""Objects that answers to reads and writes showed before the watch.

Source of the idea: kubernetes pkg/scheduler/util/assumecache v1.36 (latestObj, apiObj, Restore).
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from scheduler.api.objects import ObjectMeta
from scheduler.api.resource_versions import is_older_version

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class NewerAnswers(Generic[K, T]):
    """Objects of one kind by key, each from an answer and as the watch last showed it.

    An object is kept until the watch shows this or a newer version, or the API server is set back.

    Args:
        meta_of: returns the metadata of an object.

    Attributes:
        kept: by key, the answer's version and the watch's; None for an answer that it is gone.
    """

    def __init__(self, meta_of: Callable[[T], ObjectMeta]) -> None:
        self._meta_of = meta_of
        self.kept: dict[K, tuple[T | None, T]] = {}

    def note(self, key: K, answer: T | None, known: T) -> None:
        """Keep an object from an answer; None if the answer shows that it is gone.

        `known` is the version before the answer, from the watch or from an earlier answer.
        """
        _, watched = self.kept.get(key, (None, known))
        self.kept[key] = answer, watched

    def hide(self, key: K, watched: T) -> bool:
        """Return whether an object from the watch is no newer than the answer.

        An older version is kept as the watch's; otherwise the answer is dropped. After an answer
        that the object is gone, any version counts as newer: the object may have been recreated.
        """
        answer, _ = self.kept.pop(key, (None, None))
        if answer is None:
            return False
        meta, other = self._meta_of(watched), self._meta_of(answer)
        if is_older_of_same(meta, other):
            self.kept[key] = answer, watched
            return True
        return (meta.uid, meta.resource_version) == (other.uid, other.resource_version)

    def forget(self, key: K) -> None:
        """Forget an object that the watch showed as gone."""
        self.kept.pop(key, None)

    def take_watched(self) -> list[T]:
        """Forget all answers, and return their objects as the watch last showed them."""
        kept, self.kept = self.kept, {}
        return [watched for _, watched in kept.values()]


def is_older_of_same(meta: ObjectMeta, other: ObjectMeta) -> bool:
    """Whether a version of an object is older than another of the same object."""
    return meta.uid == other.uid and is_older_version(meta.resource_version, other.resource_version)
