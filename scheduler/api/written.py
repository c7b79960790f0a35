"""Parts of the requests that Stowage writes to the API server: conditions and references."""

from typing import Final

import msgspec

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

MESSAGE_LIMIT: Final = 32 * 1024
"""Bytes of a condition's message. Source: apimachinery meta/v1 validation (maxMessageLen) v0.36.

The API server accepts longer messages in conditions of pods, but not of pod groups.
"""
_CUT_MARK: Final = " ..."


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Cut a text to a number of bytes in UTF-8; a cut text ends with a mark."""
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len(_CUT_MARK)].decode(errors="ignore") + _CUT_MARK


class Condition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod condition to write.

    Attributes:
        type: its name, also the key by which the server merges.
        status: `True` or `False`.
        reason: one CamelCase word.
        message: a human-readable sentence.
        has_moved: whether `status` changes, so that `lastTransitionTime` is set.
        observed_generation: the pod's generation that the condition is about; 0 leaves it out.
    """

    type: str
    status: str
    reason: str
    message: str
    has_moved: bool = False
    observed_generation: int = 0


class ObjectReference(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """core/v1 ObjectReference: the object an event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"
    resource_version: str = ""
