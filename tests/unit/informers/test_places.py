"""A kind that several APIs may serve is read where the server has it, and followed elsewhere."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from structlog.testing import capture_logs
from typing_extensions import override

from scheduler.api.pod_group_apis import SCHEDULER_PLUGINS, V1BETA1
from scheduler.api.pod_groups import V1ALPHA2, PodGroup
from scheduler.daemon.client.errors import ForbiddenError, NotFoundError
from scheduler.daemon.client.http_connection import Response
from scheduler.daemon.informers.doubts import Doubts
from scheduler.daemon.informers.informer import ABSENT_SECONDS, BLIND_SECONDS, Informer
from scheduler.daemon.informers.kinds import FOREIGN_POD_GROUPS, POD_GROUPS, Kind
from scheduler.daemon.informers.listing import list_all
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.informers.fake_api import FakeApi, Mirror

FOREIGN = FOREIGN_POD_GROUPS["scheduling.x-k8s.io"]


class Versions(FakeApi):
    """Serves groups at some versions of an API."""

    list_kind = "PodGroupList"

    def __init__(self, *served: str) -> None:
        super().__init__()
        self.served = set(served)
        self.is_denied = False
        for name in ("a", "b"):
            meta = {"name": name, "namespace": "ml", "uid": name}
            spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "minMember": 3}
            self.put(name, {"metadata": meta, "spec": spec})

    @override
    async def request(self, method: str, path: str, *, timeout: float) -> Response:
        if not any(version in path for version in self.served):
            self.requests.append(path)
            raise NotFoundError(path, status=404)
        if self.is_denied:
            raise ForbiddenError(path, status=403)
        return await super().request(method, path, timeout=timeout)

    @override
    @asynccontextmanager
    async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
        if not any(version in path for version in self.served):
            self.requests.append(path)
            raise NotFoundError(path, status=404)
        async with super().stream(path, read_timeout=read_timeout) as lines:
            yield lines


class Course:
    """An informer of groups, and its server."""

    def __init__(self, clock: FakeClock, api: Versions, kind: Kind[PodGroup]) -> None:
        self.api = api
        self.clock = clock
        self.doubts = Doubts()
        self.informer = Informer(
            kind,
            api,
            clock=clock,
            rng=random.Random(1),
            metrics=InformerMetrics(Instruments()),
            doubts=self.doubts,
        )
        self.mirror: Mirror[PodGroup] = Mirror(kind.meta_of)
        self.informer.add_handler(self.mirror)

    @property
    def is_blind(self) -> bool:
        """Whether a check of readiness fails."""
        return self.informer.is_blind(self.clock.monotonic())

    @property
    def versions(self) -> set[str]:
        """From which API the groups are that are known."""
        return {group.api_version for group in self.mirror.objects.values()}


def follow(api: Versions, *steps: Any, kind: Kind[PodGroup] = POD_GROUPS) -> Course:
    """Run an informer; each step is a number of seconds to wait, or something to do."""
    course = Course(FakeClock(), api, kind)
    take(course, *steps)
    return course


def take(course: Course, *steps: Any) -> None:
    """See `follow`."""

    async def run() -> None:
        task = asyncio.create_task(course.informer.run())
        for step in steps:
            if callable(step):
                step()
            else:
                await asyncio.sleep(step)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_in(course.clock, run())


def test_a_kind_is_read_where_it_is_served() -> None:
    """On a server of 1.37, which has v1alpha2 no more; without a pause."""
    course = follow(Versions(V1BETA1), 0.1)

    assert course.informer.has_synced
    assert sorted(course.mirror.objects) == ["ml/a", "ml/b"]
    assert course.versions == {V1BETA1}
    assert len(course.api.requests) == 3


def test_a_kind_is_followed_to_another_version() -> None:
    """As in an upgrade of the control plane: groups stay, and name the version for writes."""
    api = Versions(V1ALPHA2)

    def upgrade() -> None:
        api.served = {V1BETA1}
        api.cut()

    course = follow(api, 0.1, upgrade, 60.0)

    assert course.informer.kind.declared.api_version == V1BETA1
    assert course.mirror.story == ["+ml/a", "+ml/b", "~ml/a", "~ml/b"]
    assert {group.api_version for group in course.mirror.objects.values()} == {V1BETA1}
    assert course.api.is_watched


def test_a_kind_that_no_version_serves_is_asked_for_now_and_then() -> None:
    """Nothing waits for it; it is there once it is served."""
    api = Versions()

    def enable() -> None:
        assert len(api.requests) == len(POD_GROUPS.places)
        api.served = {"v1alpha3"}

    course = follow(api, 10.0, enable, ABSENT_SECONDS + 10.0)

    assert course.versions == {"scheduling.k8s.io/v1alpha3"}


def test_a_foreign_api_is_read_at_its_own_place() -> None:
    """And at no other."""
    course = follow(Versions(SCHEDULER_PLUGINS), 0.1, kind=FOREIGN)

    assert course.versions == {SCHEDULER_PLUGINS}
    [listed, *_] = course.api.requests
    assert listed.startswith("/apis/scheduling.x-k8s.io/v1alpha1/podgroups?")


def without_objects(api: Versions) -> None:
    for name in list(api.objects):
        api.delete(name)


def served_no_more(api: Versions) -> None:
    api.served = set()
    api.cut()
    api.requests.clear()


def test_a_kind_that_is_served_no_more_is_absent() -> None:
    """As after its definition is deleted, or a downgrade: it is told, and no watch is missed."""
    api = Versions(SCHEDULER_PLUGINS)

    def remove() -> None:
        without_objects(api)
        served_no_more(api)

    with capture_logs() as logs:
        course = follow(api, 0.1, remove, BLIND_SECONDS + 10.0, kind=FOREIGN)

    assert not course.is_blind
    assert [len(api.requests), course.mirror.objects] == [2, {}]
    [told] = [entry for entry in logs if entry["log_level"] == "warning"]
    assert (told["event"], told["apis"]) == ("Not served", SCHEDULER_PLUGINS)


def test_a_kind_that_was_served_no_more_comes_back() -> None:
    """Within a minute, and a new absence is told again."""
    api = Versions(SCHEDULER_PLUGINS)
    objects = dict(api.objects)

    def remove() -> None:
        without_objects(api)
        served_no_more(api)

    def enable() -> None:
        api.served = {SCHEDULER_PLUGINS}
        api.put("a", objects["a"])

    with capture_logs() as logs:
        course = follow(api, 0.1, remove, 300.0, enable, ABSENT_SECONDS, remove, 10.0, kind=FOREIGN)

    assert course.mirror.story == ["+ml/a", "+ml/b", "-ml/a", "-ml/b", "+ml/a", "-ml/a"]
    told = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert told == ["Not served", "Not served"]


def test_a_kind_that_a_restore_has_removed_holds_no_binding() -> None:
    """It has nothing to list, so no list would end the doubt."""
    api = Versions(SCHEDULER_PLUGINS)
    without_objects(api)
    seen: list[bool] = []

    def restore() -> None:
        course.informer.list_again()
        seen.append(course.doubts.are_open())
        served_no_more(api)

    def look() -> None:
        seen.append(course.doubts.are_open())

    course = Course(FakeClock(), api, FOREIGN)
    take(course, 0.1, restore, 10.0, look)

    assert seen == [True, False]


def test_objects_of_a_kind_that_is_served_no_more_stay() -> None:
    """None was seen to go: decisions rest on what was known, and a check says so."""
    api = Versions(SCHEDULER_PLUGINS)

    course = follow(api, 0.1, lambda: served_no_more(api), BLIND_SECONDS + 10.0, kind=FOREIGN)

    assert sorted(course.mirror.objects) == ["ml/a", "ml/b"]
    assert course.is_blind


def test_a_kind_that_comes_without_the_right_to_read_it_is_missed() -> None:
    """It was absent, which is well; now there may be objects of it."""
    api = Versions()
    seen: list[bool] = []

    def enable() -> None:
        seen.append(course.is_blind)
        api.served, api.is_denied = {SCHEDULER_PLUGINS}, True

    def permit() -> None:
        seen.append(course.is_blind)
        api.is_denied = False

    course = Course(FakeClock(), api, FOREIGN)
    take(course, 100.0, enable, ABSENT_SECONDS + BLIND_SECONDS + 10.0, permit, 10.0)

    assert seen == [False, True]
    assert not course.is_blind
    assert course.versions == {SCHEDULER_PLUGINS}


class Closed:
    async def read(self) -> list[bytes]:
        return []


def test_a_kind_that_comes_and_cannot_be_watched_is_missed() -> None:
    """Each of its watches ends at once: its objects are as old as its last list."""
    seen: list[bool] = []

    class Closing(Versions):
        @override
        @asynccontextmanager
        async def stream(self, path: str, *, read_timeout: float) -> AsyncIterator[Any]:
            async with super().stream(path, read_timeout=read_timeout):
                yield Closed()

    api = Closing()

    def enable() -> None:
        seen.append(course.is_blind)
        api.served = {SCHEDULER_PLUGINS}

    course = Course(FakeClock(), api, FOREIGN)
    take(course, 100.0, enable, ABSENT_SECONDS + BLIND_SECONDS + 10.0)

    assert [*seen, course.is_blind] == [False, True]
    assert course.versions == {SCHEDULER_PLUGINS}


def test_commands_list_a_kind_where_it_is_served() -> None:
    """A server without it has no objects of it."""

    async def names(api: Versions) -> list[str]:
        groups, problems = await list_all(api, POD_GROUPS)
        assert problems == []
        return [group.name for group in groups]

    assert asyncio.run(names(Versions(V1BETA1))) == ["a", "b"]
    assert asyncio.run(names(Versions())) == []
