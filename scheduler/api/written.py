"""Parts of Stowage's writes into the API: conditions and references, as plain values."""

from typing import Final

import msgspec

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class Condition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod condition to write.

    Attributes:
        type: its name, also the key by which the server merges.
        status: `True` or `False`.
        reason: one word for machines.
        message: a sentence for people.
        has_moved: whether `status` changes, so that a transition time is due.
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
