"""The extenders of a configuration, those interested in a pod, and those suspended for a while.

Source: kubernetes pkg/scheduler/scheduler.go (buildExtenders), extender.go (IsInterested) v1.36.
Differs: an ignorable extender that is late again and again is not called for a while. Upstream
waits for it with every pod.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.api.limits import exceeded_limit
from scheduler.api.pods import PodInfo
from scheduler.config.types import Extender
from scheduler.kernel.extender.questions import Answer, NoAnswer, Verb

LATE_IN_A_ROW: Final = 3
"""Late answers in a row after which an ignorable extender is suspended."""
SKIP_SECONDS: Final = 30.0
"""Duration of a suspension. After it, one more late answer suspends the extender again."""
_CREDENTIALS: Final = re.compile(r"^([^/@]*//|)[^/?#]*@")
"""The scheme of a URL, if it has one, and the user and password before its host."""


class KnownExtender(msgspec.Struct, frozen=True):
    """One extender.

    Attributes:
        config: its configuration.
        place: its number in the configuration.
        name: its URL without the password that may be in it.
        label: its name; with its place in the configuration if another extender has that name.
        managed: the resources it manages; empty for all pods.
    """

    config: Extender
    place: int
    name: str
    label: str
    managed: frozenset[str]

    def verb(self, verb: Verb) -> str:
        """The path of a verb; empty if the extender does not serve it."""
        if verb is Verb.FILTER:
            return self.config.filter_verb
        if verb is Verb.PRIORITIZE:
            return self.config.prioritize_verb
        return self.config.preempt_verb

    def url(self, path: str) -> str:
        """The URL of a verb, for people."""
        return f"{self.name.rstrip('/')}/{path}"

    def is_interested(self, pod: PodInfo) -> bool:
        """Whether the pod requests any resource that the extender manages.

        Upstream reads limits as well; the API server copies a limit to a missing request
        (`SetDefaults_Pod`).
        """
        if not self.managed:
            return True
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(not self.managed.isdisjoint(c.resources.requests) for c in containers)


class _Patience(msgspec.Struct):
    """The recent late answers of an extender.

    Attributes:
        late: late answers in a row.
        skipped_until: the time of the next call at the earliest, in seconds of the events' clock.
    """

    late: int = 0
    skipped_until: float = 0.0


class Extenders:
    """All extenders in the order of calls: those that are not ignorable first.

    Attributes:
        all: the extenders; calls name them by their index here.
    """

    def __init__(self, configs: Sequence[Extender] = ()) -> None:
        names = [without_password(config.url_prefix) for config in configs]
        known = [
            KnownExtender(
                config,
                place,
                name,
                name if names.count(name) == 1 else f"{name} (extenders[{place}])",
                frozenset(resource.name for resource in config.managed_resources),
            )
            for place, (config, name) in enumerate(zip(configs, names, strict=True))
        ]
        self.all = tuple(sorted(known, key=lambda each: each.config.ignorable))
        self._patience = [_Patience() for _ in known]

    def __bool__(self) -> bool:
        return bool(self.all)

    def interested_in(self, pod: PodInfo, *verbs: Verb) -> tuple[int, ...]:
        """The extenders that serve one of the verbs and take the pod."""
        if not self.all:
            return ()
        return tuple(
            number
            for number, extender in enumerate(self.all)
            if any(map(extender.verb, verbs)) and extender.is_interested(pod)
        )

    def about_nodes(self, pod: PodInfo) -> tuple[int, ...]:
        """The extenders that filter or score nodes for a pod; none if it exceeds a limit."""
        if self.all and exceeded_limit(pod):
            return ()
        return self.interested_in(pod, Verb.FILTER, Verb.PRIORITIZE)

    def about_candidates(self, pod: PodInfo) -> tuple[int, ...]:
        """The extenders that review the victims of a pod's preemption."""
        return self.interested_in(pod, Verb.PREEMPT)

    def binder(self, pod: PodInfo) -> int | None:
        """The extender that binds a pod; None for the profile's own plugins."""
        for number, extender in enumerate(self.all):
            if extender.config.bind_verb and extender.is_interested(pod):
                return number
        return None

    def is_skipped(self, number: int, now: float) -> bool:
        """Whether an extender is suspended at present."""
        return now < self._patience[number].skipped_until

    def note(self, number: int, answer: Answer, now: float) -> bool:
        """Record whether an answer was late; returns True if the extender is now suspended."""
        patience = self._patience[number]
        if not isinstance(answer, NoAnswer) or not answer.is_late:
            patience.late = 0
            return False
        patience.late += 1
        if not self.all[number].config.ignorable or patience.late < LATE_IN_A_ROW:
            return False
        if now < patience.skipped_until:
            # The call was made before the suspension.
            return False
        patience.late = LATE_IN_A_ROW - 1
        patience.skipped_until = now + SKIP_SECONDS
        return True


def without_password(url: str) -> str:
    """A URL, or a text that should be one, without credentials, for logs and files."""
    return _CREDENTIALS.sub(r"\1", url)
