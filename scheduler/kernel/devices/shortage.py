"""Whether there are enough devices for all requests together, without a search through all orders.

If ten requests compete for nine devices, the search fails only after millions of steps. This check
is a bipartite matching: each request needs a number of devices of its own among the suitable ones.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Need(NamedTuple):
    """A request's need of devices that no other request can have.

    Attributes:
        devices: the number of devices.
        options: the indexes of suitable devices.
    """

    devices: int
    options: Sequence[int]


def is_short(needs: Sequence[Need]) -> bool:
    """Whether no assignment gives every request its number of devices, each to one request.

    Method: augmenting paths; a request whose devices are taken displaces another request.
    """
    owners: dict[int, int] = {}
    return any(
        not _assign(needs, number, owners)
        for number, need in enumerate(needs)
        for _ in range(need.devices)
    )


def _assign(needs: Sequence[Need], number: int, owners: dict[int, int]) -> bool:
    """Give one more device to a request; other requests may have to exchange theirs."""
    came_from: dict[int, int | None] = {}
    """By device, the device that its new owner gives away for it."""
    waiting: list[tuple[int, int | None]] = [(number, None)]
    while waiting:
        taker, gives = waiting.pop()
        for device in needs[taker].options:
            if device in came_from:
                continue
            came_from[device] = gives
            owner = owners.get(device)
            if owner is None:
                _hand_on(device, number, owners, came_from)
                return True
            waiting.append((owner, device))
    return False


def _hand_on(
    free: int, first: int, owners: dict[int, int], came_from: dict[int, int | None]
) -> None:
    """Give the free device to the path's last owner, that owner's device to the one before, etc."""
    device = free
    while (given := came_from[device]) is not None:
        owners[device] = owners[given]
        device = given
    owners[device] = first
