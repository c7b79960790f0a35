"""The outcome of a change to a cluster, as data of the page "What if"."""

from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler.tools.offline.cluster import Profiles
from scheduler.tools.offline.heat import Heat, heat_of
from scheduler.tools.offline.progress import Progress
from scheduler.tools.offline.reading import ClusterObjects
from scheduler.tools.offline.what_if import HypotheticalChange, WhatIfResult, what_if


class HeatOfBoth(msgspec.Struct, frozen=True):
    """The nodes as they were, and as they would be."""

    before: Heat
    after: Heat


class WhatIfPage(msgspec.Struct, frozen=True):
    """The outcome of a change, and the use of the nodes before and after."""

    found: WhatIfResult
    heat: HeatOfBoth

    @property
    def data(self) -> dict[str, Any]:
        """The output of `stowage what-if -o json`, and `heat`."""
        found: dict[str, Any] = msgspec.to_builtins(self.found)
        return {**found, "heat": self.heat}


def what_if_page(
    profiles: Profiles,
    objects: ClusterObjects,
    changes: Iterable[HypotheticalChange],
    seed: int,
    progress: Progress,
) -> WhatIfPage:
    """As `what_if`; `objects` are changed.

    Raises:
        InputError: a change names an unknown object.
    """
    seen: list[Heat] = []
    found = what_if(
        profiles,
        objects,
        changes,
        seed,
        look=lambda snapshot: seen.append(heat_of(snapshot)),
        progress=progress,
    )
    return WhatIfPage(found, HeatOfBoth(*seen))
