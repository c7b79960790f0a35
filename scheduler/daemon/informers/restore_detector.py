"""Detects an API server that was restored from a backup.

From a version that a restored server has not reached again, a watch delivers nothing. From one that
it has reached again, it delivers other events. The server's version and the newest object seen
reveal both, in one small request.

Source: kubernetes.io/docs/tasks/administer-cluster/configure-upgrade-etcd (restoring), KEP-5504
(comparable resource versions).
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from scheduler.api.objects import ObjectMeta
from scheduler.api.resource_versions import is_older_version
from scheduler.daemon.client.errors import GoneError
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.client.wire import UNREADABLE
from scheduler.daemon.informers.kinds import Kind, MalformedObjectError
from scheduler.daemon.informers.store import key_of
from scheduler.daemon.informers.wire import page_decoder

_KEPT: Final = 8
"""Number of objects kept: some of the newest may be deleted before a check."""


class RestoreDetector:
    """Remembers the newest objects of one kind, newest last, and compares them with the server."""

    def __init__(self, kind: Kind[Any]) -> None:
        self._kind = kind
        self._seen: deque[ObjectMeta] = deque(maxlen=_KEPT)

    def saw(self, meta: ObjectMeta) -> None:
        """Note an object, unless it is older than the newest noted one."""
        seen = self._seen
        if not seen or is_older_version(seen[-1].resource_version, meta.resource_version):
            seen.append(meta)

    def forget(self) -> None:
        """Forget the noted versions: they belong to a history that a restore has undone."""
        self._seen.clear()

    async def ask(
        self, session: ApiSession, timeout: float, store: Mapping[str, Any], version: str
    ) -> str:
        """Ask the server for its version and the newest object.

        Args:
            session: sends the request.
            timeout: in seconds.
            store: the known objects.
            version: the version of the store.

        Returns:
            What shows that the server's state is older than the store; empty if nothing does.

        Raises:
            GoneError: the newest object is gone, which does not prove a restore.
            ApiError: the request failed.
        """
        known = self._newest(store)
        path = self._question(known)
        answer = await session.request("GET", path, timeout=timeout)
        try:
            page = page_decoder.decode(answer.body)
            found = [self._kind.decode(raw) for raw in page.items or ()]
        except (*UNREADABLE, MalformedObjectError):
            # An unreadable answer does not prove a restore.
            return ""
        there = page.metadata.resource_version
        if is_older_version(there, version):
            return f"version {there} follows {version}"
        if known is None:
            return ""
        if not found:
            raise GoneError(f"GET {path}", message=f"{key_of(known)} is gone meanwhile")
        return self._difference(store[key_of(known)], found[0])

    def _difference(self, known: Any, found: Any) -> str:
        """Return what shows that an object is from before a restore, or from another history."""
        before, meta = self._kind.meta_of(known), self._kind.meta_of(found)
        if meta.uid != before.uid:
            return ""
        if is_older_version(meta.resource_version, before.resource_version):
            return f"{key_of(meta)} is as it was before"
        if meta.resource_version == before.resource_version and found != known:
            return f"{key_of(meta)} differs at version {meta.resource_version}"
        return ""

    def _newest(self, store: Mapping[str, Any]) -> ObjectMeta | None:
        """Return the newest noted object that is in the store in the same version."""
        for meta in reversed(self._seen):
            known = store.get(key_of(meta))
            if known is not None:
                there = self._kind.meta_of(known)
                if (there.uid, there.resource_version) == (meta.uid, meta.resource_version):
                    return meta
        return None

    def _question(self, known: ObjectMeta | None) -> str:
        """Return the query for a list of the known object alone, which has the server's version."""
        path = self._kind.path
        if known is None:
            return f"{path}?limit=1"
        if known.namespace:
            root, _, plural = path.rpartition("/")
            path = f"{root}/namespaces/{quote(known.namespace, safe='')}/{plural}"
        name = quote(f"metadata.name={known.name}", safe="")
        return f"{path}?fieldSelector={name}&limit=1"
