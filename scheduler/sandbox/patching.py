"""Patch requests of all four kinds."""

from typing import Final

import msgspec

from scheduler.sandbox.bodies import parsed_json, parsed_yaml
from scheduler.sandbox.kinds import Kind
from scheduler.sandbox.patches.json_patch import apply_json_patch, apply_merge_patch
from scheduler.sandbox.patches.server_side_apply import apply_configuration
from scheduler.sandbox.patches.strategic import apply_strategic_patch
from scheduler.sandbox.registry import Registry, WriteOptions, Written
from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.status import bad_request, conflict, unsupported_media_type
from scheduler.sandbox.store import Entry, Key

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_SUPPORTED: Final = f"{JSON_PATCH}, {MERGE_PATCH}, {STRATEGIC_PATCH}, {APPLY_PATCH}"


class Patcher:
    """Applies patches through the registry.

    Args:
        registry: the objects.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._applied: dict[tuple[str, str], Object] = {}
        """What each manager applied last to each object, by uid and manager."""

    def patch(
        self,
        kind: Kind,
        key: Key,
        body: bytes,
        media_type: str,
        *,
        options: WriteOptions,
        manager: str = "",
        subresource: str = "",
    ) -> Written:
        """Changes an object as the patch says; apply creates it when it is missing.

        Raises:
            StatusError: 415 for an unknown form, 400 and 422 for a patch that is broken, 404, 409,
                and what breaks the rules.
        """
        if media_type == APPLY_PATCH:
            configuration = parsed_yaml(body)
            return self._apply(kind, key, configuration, options, manager, subresource)

        def change(document: Object) -> Object:
            if media_type == JSON_PATCH:
                return apply_json_patch(document, body)
            if media_type == MERGE_PATCH:
                merged: Object = apply_merge_patch(document, parsed_json(body))
                return merged
            if media_type == STRATEGIC_PATCH:
                return apply_strategic_patch(document, parsed_json(body), kind.type_name)
            raise unsupported_media_type(_SUPPORTED)

        return self._registry.transform(kind, key, change, options, subresource=subresource)

    def _apply(
        self,
        kind: Kind,
        key: Key,
        configuration: Object,
        options: WriteOptions,
        manager: str,
        subresource: str,
    ) -> Written:
        if not manager:
            raise bad_request("fieldManager is required for apply patch")
        entry = self._registry.store.collection(kind).get(key)
        version = (configuration.get("metadata") or {}).get("resourceVersion")
        if version and version != (str(entry.version) if entry else ""):
            raise conflict(kind.resource, kind.group, key.name)
        configuration.setdefault("metadata", {}).setdefault("name", key.name)
        if entry is None:
            written = self._registry.create(kind, key.namespace, configuration, options)
        else:
            document = self._registry.shown(kind, entry)
            previous = self._applied.get((entry.uid, manager), {})
            changed = apply_configuration(document, configuration, previous, kind.type_name)
            written = self._registry.update(kind, key, changed, options, subresource=subresource)
        if not options.dry_run:
            self._remember(written.entry, manager, configuration)
        return written

    def _remember(self, entry: Entry, manager: str, configuration: Object) -> None:
        copied: Object = msgspec.json.decode(msgspec.json.encode(configuration))
        copied["metadata"].pop("resourceVersion", None)
        self._applied[entry.uid, manager] = copied
