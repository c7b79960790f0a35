"""A kind that several APIs may serve is read where the server has it, and followed elsewhere."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from typing_extensions import override

from scheduler.api.pod_group_apis import V1BETA1
from scheduler.api.pod_groups import V1ALPHA2, PodGroup
from scheduler.daemon.client.direct import Response
from scheduler.daemon.client.errors import NotFoundError
from scheduler.daemon.informers.informer import ABSENT_SECONDS, Informer
from scheduler.daemon.informers.kinds import FOREIGN_POD_GROUPS, POD_GROUPS, Kind
from scheduler.daemon.informers.listing import list_all
from scheduler.observability.client_metrics import InformerMetrics
from scheduler.observability.instruments import Instruments
from tests.support.clock import FakeClock
from tests.support.virtual_time import run_in
from tests.unit.informers.fake_api import FakeApi, Mirror


class Versions(FakeApi):
    """Serves groups at some versions of an API."""

    list_kind = "PodGroupList"

    def __init__(self, *served: str) -> None:
        super().__init__()
        self.served = set(served)
        for name in ("a", "b"):
            meta = {"name": name, "namespace": "ml", "uid": name}
            spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "minMember": 3}
            self.put(name, {"metadata": meta, "spec": spec})

    @override
    async def request(self, method: str, path: str, *, timeout: float) -> Response:
        if not any(version in path for version in self.served):
            self.requests.append(path)
            raise NotFoundError(path, status=404)
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
        self.informer = Informer(
            kind,
            api,
            clock=clock,
            rng=random.Random(1),
            metrics=InformerMetrics(Instruments()),
        )
        self.mirror: Mirror[PodGroup] = Mirror(kind.meta_of)
        self.informer.add_handler(self.mirror)

    @property
    def versions(self) -> set[str]:
        """From which API the groups are that are known."""
        return {group.api_version for group in self.mirror.objects.values()}


def follow(api: Versions, *steps: Any, kind: Kind[PodGroup] = POD_GROUPS) -> Course:
    """Run an informer; each step is a number of seconds to wait, or something to do."""
    clock = FakeClock()
    course = Course(clock, api, kind)

    async def run() -> None:
        task = asyncio.create_task(course.informer.run())
        for step in steps:
            if callable(step):
                step()
            else:
                await asyncio.sleep(step)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_in(clock, run())
    return course


def test_a_kind_is_read_where_it_is_served() -> None:
    """On a server of 1.37, which has v1alpha2 no more; without a pause."""
    course = follow(Versions(V1BETA1), 0.1)

    assert course.informer.has_synced
    assert sorted(course.mirror.objects) == ["ml/a", "ml/b"]
    assert course.versions == {V1BETA1}
    assert len(course.api.requests) == 3


def test_a_kind_is_followed_to_another_version() -> None:
    """As in an upgrade of the control plane: groups stay, and none is told of as new."""
    api = Versions(V1ALPHA2)

    def upgrade() -> None:
        api.served = {V1BETA1}
        api.cut()

    course = follow(api, 0.1, upgrade, 60.0)

    assert course.informer.kind.declared.api_version == V1BETA1
    assert course.mirror.story == ["+ml/a", "+ml/b"]
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
    kind = FOREIGN_POD_GROUPS["scheduling.x-k8s.io"]

    course = follow(Versions("scheduling.x-k8s.io/v1alpha1"), 0.1, kind=kind)

    assert course.versions == {"scheduling.x-k8s.io/v1alpha1"}
    [listed, *_] = course.api.requests
    assert listed.startswith("/apis/scheduling.x-k8s.io/v1alpha1/podgroups?")


def test_commands_list_a_kind_where_it_is_served() -> None:
    """A server without it has no objects of it."""

    async def names(api: Versions) -> list[str]:
        groups, problems = await list_all(api, POD_GROUPS)
        assert problems == []
        return [group.name for group in groups]

    assert asyncio.run(names(Versions(V1BETA1))) == ["a", "b"]
    assert asyncio.run(names(Versions())) == []
