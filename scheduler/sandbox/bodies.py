"""Request bodies, in the forms clients send them."""

from typing import Any, Final

import msgspec
import yaml

from scheduler.sandbox.schema.codec import Object
from scheduler.sandbox.schema.protobuf import MEDIA_TYPE as PROTOBUF, decode_object
from scheduler.sandbox.status import bad_request, unsupported_media_type

_JSON: Final = ("", "application/json", "*/*")
_YAML: Final = ("application/yaml", "application/apply-patch+yaml")
_SUPPORTED: Final = f"application/json, application/yaml, {PROTOBUF}"


def media_type(content_type: str) -> str:
    """A Content-Type header without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def given_object(body: bytes, content_type: str) -> bytes | Object:
    """The object in a body: still as bytes when it is JSON, so that it is decoded only once.

    Raises:
        StatusError: 415 for another media type, 400 for YAML that is none.
    """
    kind = media_type(content_type)
    if kind in _JSON:
        return body
    if kind in _YAML:
        return parsed_yaml(body)
    if kind == PROTOBUF:
        return decode_object(body)
    raise unsupported_media_type(_SUPPORTED)


def parsed_yaml(body: bytes) -> Object:
    """The one object in a YAML document.

    Raises:
        StatusError: 400.
    """
    try:
        content = yaml.load(body, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    return _as_object(content)


def parsed_json(body: bytes) -> Object:
    """The one object in a JSON document; an empty body is an empty object.

    Raises:
        StatusError: 400.
    """
    try:
        content = msgspec.json.decode(body) if body else {}
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding the body: {error}") from error
    return _as_object(content)


def parsed(body: bytes, content_type: str) -> Object:
    """The one object in a body of either form."""
    given = given_object(body, content_type)
    return parsed_json(given) if isinstance(given, bytes) else given


def _as_object(content: Any) -> Object:
    if not isinstance(content, dict):
        raise bad_request("the body of the request is not an object")
    return content
