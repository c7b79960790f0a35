"""JSON patch and JSON merge patch.

Source: RFC 6902, RFC 6901, RFC 7396.
"""

import copy
from typing import Any, Final

import msgspec

from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.status import StatusError, bad_request, unprocessable

_REFUSED: Final = "the server rejected our request due to an error in our request"


class Operation(msgspec.Struct, frozen=True):
    """One step of a JSON patch."""

    op: str
    path: str
    value: Any = None
    from_: str = msgspec.field(name="from", default="")


_decoder: Final = msgspec.json.Decoder(list[Operation])


def apply_json_patch(document: Object, patch: bytes) -> Object:
    """The document after all steps; the given one is left as it is.

    Raises:
        StatusError: 400, the patch cannot be read; 422, it does not apply.
    """
    try:
        operations = _decoder.decode(patch)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    root: Any = copy.deepcopy(document)
    for operation in operations:
        for path in (operation.path, operation.from_):
            if path and not path.startswith("/"):
                raise bad_request(f'a JSON patch path must begin with "/": {path!r}')
        root = _step(root, operation)
    result: Object = root
    return result


def _step(root: Any, operation: Operation) -> Any:
    match operation.op:
        case "add":
            return _add(root, operation.path, operation.value)
        case "remove":
            return _remove(root, operation.path)[0]
        case "replace":
            if operation.path:
                root, _ = _remove(root, operation.path)
            return _add(root, operation.path, operation.value)
        case "move":
            root, value = _remove(root, operation.from_)
            return _add(root, operation.path, value)
        case "copy":
            return _add(root, operation.path, copy.deepcopy(_get(root, operation.from_)))
        case "test":
            if _get(root, operation.path) != operation.value:
                raise unprocessable(f"testing value {operation.path} failed: {_REFUSED}")
            return root
        case unknown:
            raise bad_request(f"unexpected kind of JSON patch operation: {unknown}")


def _tokens(path: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def _get(root: Any, path: str) -> Any:
    node = root
    for token in _tokens(path):
        if isinstance(node, dict) and token in node:
            node = node[token]
        elif isinstance(node, list):
            node = node[_index(node, token, path, limit=len(node) - 1)]
        else:
            raise _missing(path)
    return node


def _parent(root: Any, path: str) -> tuple[Any, str]:
    head, _, last = path.rpartition("/")
    return _get(root, head), last.replace("~1", "/").replace("~0", "~")


def _add(root: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    parent, last = _parent(root, path)
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        position = len(parent) if last == "-" else _index(parent, last, path, limit=len(parent))
        parent.insert(position, value)
    else:
        raise _missing(path)
    return root


def _remove(root: Any, path: str) -> tuple[Any, Any]:
    parent, last = _parent(root, path)
    if isinstance(parent, list):
        return root, parent.pop(_index(parent, last, path, limit=len(parent) - 1))
    if isinstance(parent, dict) and last in parent:
        return root, parent.pop(last)
    raise _missing(path)


def _index(items: list[Any], token: str, path: str, *, limit: int) -> int:
    if not token.isdigit() or int(token) > limit:
        raise unprocessable(
            f"JSON patch: {token!r} is not a position in the list of {len(items)} at {path}: "
            f"{_REFUSED}"
        )
    return int(token)


def _missing(path: str) -> StatusError:
    return unprocessable(f"JSON patch: there is nothing at {path}: {_REFUSED}")


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """The document with the patch laid over it; null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result
