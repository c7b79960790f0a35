"""What the write path asks of a kind's rules."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apistub.storage.kinds import Object
from apistub.storage.status import Fault
from apistub.storage.store import Store


@dataclass(frozen=True, slots=True)
class Rules:
    """What happens to one kind's objects on the way into the store, in this order."""

    default: Callable[[Object], None] = lambda _content: None
    """Fills in what the user left out; runs on every write."""
    admit: Callable[[Object, Store], None] = lambda _content, _store: None
    """Changes or refuses a new object by what else is in the cluster (raises StatusError)."""
    prepare_update: Callable[[Object, Object], None] = lambda _new, _old: None
    """Sets what the server owns in a changed object: (new, old)."""
    validate: Callable[[Object], Iterable[Fault]] = lambda _content: ()
    """The faults of an object, whether new or changed."""
    validate_update: Callable[[Object, Object], Iterable[Fault]] = lambda _new, _old: ()
    """The faults of a change: (new, old)."""
