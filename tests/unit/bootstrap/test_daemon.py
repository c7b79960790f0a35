"""What flags and configuration say has its effect on the daemon that is put together from them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from prometheus_client import generate_latest

from scheduler.clock import SystemClock
from scheduler.config.feature_gates import turned_on
from scheduler.config.load import load_object
from scheduler.config.options import RunOptions
from scheduler.daemon.bootstrap.daemon import RunningDaemon
from scheduler.daemon.client.connection import load_connection
from scheduler.daemon.client.leases import LeaseLock
from scheduler.daemon.client.reviews import User
from scheduler.daemon.leader_election.campaign import CampaignThread
from scheduler.daemon.leader_election.election import LeaderElectionSettings
from scheduler.daemon.leader_election.elector import LeaderElector
from scheduler.daemon.leader_election.lock import Lock
from scheduler.daemon.recording.files import recordings_in
from scheduler.kernel.engine.events import BindFailed, Decide, ObjectSet, Tick
from scheduler.kernel.engine.instructions import Bind
from scheduler.tools.offline.recorded import recorded_engine, recorded_profiles
from tests.support.builders import make_node, make_pod_info
from tests.unit.client.scripted_server import ScriptedServer, json_answer, status_answer

START = 1000.0


async def accepted(_: web.Request) -> web.Response:
    return status_answer(201)


@asynccontextmanager
async def put_together(
    config: dict[str, Any], server: str = "http://127.0.0.1:1", **options: Any
) -> AsyncIterator[RunningDaemon]:
    """A daemon that does not run."""
    clock = SystemClock()
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **config,
    }
    daemon = RunningDaemon(
        RunOptions(secure_port=0, **options),
        load_object(document, feature_gates=turned_on(options.get("feature_gates", ()))),
        await load_connection(master=server, environ={}, clock=clock),
        clock,
        out_of_tree={},
    )
    try:
        yield daemon
    finally:
        await daemon._review_session.close()
        await daemon._session.close()


def test_a_replay_has_the_same_time_of_day(tmp_path: Path) -> None:
    """To the last digit: expected ends of pods are compared with it."""

    async def story() -> float:
        async with put_together({}, record=str(tmp_path)) as daemon:
            engine = daemon.driver.engine
            engine.handle(Tick(), START)
            daemon._recorders.close()
            return engine.core.wall()

    wall = uvloop.run(story())
    [recording] = recordings_in(tmp_path)
    engine = recorded_engine(recorded_profiles(recording.header), recording.header)
    engine.handle(Tick(), START)

    assert engine.core.wall() == wall


def place_of(daemon: RunningDaemon) -> str:
    """Where the only waiting pod is."""
    [entry] = daemon.driver.engine.core.queue.dump()
    return str(entry["queue"])


def test_the_time_in_unschedulable_is_as_told() -> None:
    """By the flag of that name."""

    async def story() -> list[str]:
        async with put_together({}, pod_max_in_unschedulable_pods_duration=60.0) as daemon:
            engine = daemon.driver.engine
            engine.handle(ObjectSet("nodes", make_node("n")), START)
            pod = make_pod_info("p", node_selector={"disk": "ssd"})
            engine.handle(ObjectSet("pods", pod), START)
            engine.handle(Decide(), START)
            places = []
            for seconds in (0.0, 60.0, 91.0):
                engine.handle(Tick(), START + seconds)
                places.append(place_of(daemon))
            return places

    assert uvloop.run(story()) == ["unschedulable", "unschedulable", "active"]


def test_back_off_is_as_configured() -> None:
    """By the file."""
    config = {"podInitialBackoffSeconds": 6, "podMaxBackoffSeconds": 6}

    async def story() -> list[str]:
        async with put_together(config) as daemon:
            engine = daemon.driver.engine
            engine.handle(ObjectSet("nodes", make_node("n")), START)
            pod = make_pod_info("p")
            engine.handle(ObjectSet("pods", pod), START)
            engine.handle(Decide(), START)
            [attempt] = engine.attempts
            engine.handle(BindFailed(attempt.id, "refused"), START)
            places = []
            for seconds in (5.0, 7.0):
                engine.handle(Tick(), START + seconds)
                places.append(place_of(daemon))
            return places

    assert uvloop.run(story()) == ["backoff", "active"]


@pytest.mark.parametrize("is_coordinated", [False, True])
def test_an_election_is_as_configured(*, is_coordinated: bool) -> None:
    """By the file: its times and its Lease; by the feature gate: the choice of the leader."""
    election = {
        "leaderElect": True,
        "leaseDuration": "40s",
        "renewDeadline": "30s",
        "retryPeriod": "7s",
        "resourceName": "mine",
        "resourceNamespace": "ours",
    }
    gate = f"CoordinatedLeaderElection={str(is_coordinated).lower()}"

    async def story() -> None:
        async with put_together({"leaderElection": election}, feature_gates=(gate,)) as daemon:
            elector = daemon._elector
            assert elector is not None
            assert elector._settings == LeaderElectionSettings(
                identity=elector.identity,
                lease_duration_seconds=40.0,
                renew_deadline_seconds=30.0,
                retry_period_seconds=7.0,
                is_coordinated=is_coordinated,
            )
            assert (elector._candidacy is not None) is is_coordinated
            for lock in (elector._lock, await own_lock_of(elector)):
                assert isinstance(lock, LeaseLock)
                assert (lock.namespace, lock.name) == ("ours", "mine")

    uvloop.run(story())


async def own_lock_of(elector: LeaderElector) -> Lock:
    """The Lease as the thread of a campaign opens it."""
    campaigning = elector._campaigning
    assert isinstance(campaigning, CampaignThread)
    async with campaigning._open_lock(asyncio.get_running_loop()) as lock:
        return lock


def test_sizes_are_taken_at_each_scrape() -> None:
    """Nothing is counted twice: whoever holds pods and writes is asked how many they are."""

    async def story() -> str:
        async with put_together({}) as daemon:
            driver = daemon.driver
            driver.submit(ObjectSet("nodes", make_node("n")))
            for pod in (
                make_pod_info("rejected", node_selector={"disk": "ssd"}),
                make_pod_info("binding"),
            ):
                driver.submit(ObjectSet("pods", pod))
                driver.submit(Decide())
            driver.submit(ObjectSet("pods", make_pod_info("gated", gates=["g"])))
            return generate_latest(daemon.metrics.registry).decode()

    text = uvloop.run(story())

    for line in (
        'scheduler_pending_pods{queue="active"} 0.0',
        'scheduler_pending_pods{queue="unschedulable"} 1.0',
        'scheduler_pending_pods{queue="gated"} 1.0',
        'scheduler_inflight_events{event="PodPopped"} 0.0',
        'scheduler_cache_size{type="nodes"} 1.0',
        'scheduler_cache_size{type="assumed_pods"} 1.0',
        'scheduler_goroutines{operation="binding"} 1.0',
        'scheduler_goroutines{operation="prioritizing_extender"} 0.0',
        "stowage_binds_in_flight 1.0",
        "stowage_tasks 1.0",
        'workqueue_depth{name="binds"} 1.0',
        'workqueue_depth{name="patches"} 1.0',
        'stowage_asking_attempts{place="line"} 0.0',
        'stowage_class_cache_requests_total{result="miss"} 2.0',
    ):
        assert f"{line}\n" in text
    assert float(text.partition("\nstowage_class_cache_bytes ")[2].partition("\n")[0]) > 0


def test_failures_are_counted_from_zero() -> None:
    """Of what alerts watch: a rate does not show the first failure of a series that begins then."""

    async def story() -> str:
        async with put_together({}) as daemon:
            return generate_latest(daemon.metrics.registry).decode()

    text = uvloop.run(story())

    for line in (
        'stowage_plugin_errors_total{extension_point="Filter",plugin="NodeResourcesFit"} 0.0',
        'stowage_plugin_errors_total{extension_point="PostFilter",plugin="DefaultPreemption"} 0.0',
        'stowage_plugin_errors_total{extension_point="Unreserve",plugin="VolumeBinding"} 0.0',
        'stowage_plugin_errors_total{extension_point="QueueingHint",plugin="NodeResourcesFit"} 0.0',
        'stowage_events_dropped_total{reason="refused"} 0.0',
        'stowage_watch_restarts_total{kind="pods",reason="failed"} 0.0',
        'stowage_malformed_objects_total{kind="pods"} 0.0',
    ):
        assert f"{line}\n" in text


@pytest.mark.parametrize(
    ("qps", "burst", "binds", "at_least_seconds"),
    [
        pytest.param(0.001, 4, 4, 0.0, id="a burst leaves at once"),
        pytest.param(20.0, 1, 5, 3.9 / 20.0, id="after the burst so many a second"),
    ],
)
def test_requests_are_limited_as_configured(
    qps: float, burst: int, binds: int, at_least_seconds: float
) -> None:
    """By `clientConnection`: a smaller burst would take hours, no limit no time at all."""

    async def story() -> float:
        async with (
            ScriptedServer(accepted).running() as server,
            put_together({"clientConnection": {"qps": qps, "burst": burst}}, server.url) as daemon,
        ):
            outbox, clock = daemon.driver.outbox, SystemClock()
            begun = clock.monotonic()
            for number in range(binds):
                outbox.bind(Bind(number, "ns", f"p{number}", f"u{number}", "n"))
            sending = asyncio.create_task(outbox.run())
            await outbox.drain(60.0, binds_only=True)
            taken = clock.monotonic() - begun
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            assert len(server.seen) == binds
            return taken

    assert uvloop.run(story()) >= at_least_seconds


def test_a_scrape_does_not_wait_for_binds() -> None:
    """Its token is reviewed at once: behind the binds it would wait for hours."""

    async def reviewed(_: web.Request) -> web.Response:
        user = {"username": "scraper"}
        return json_answer({"status": {"authenticated": True, "user": user}}, 201)

    async def story() -> User | None:
        async with (
            ScriptedServer(reviewed).running() as server,
            put_together({"clientConnection": {"qps": 0.0001, "burst": 1}}, server.url) as daemon,
        ):
            await daemon._session.request("POST", "/bind", b"{}")
            async with asyncio.timeout(60.0):
                return await daemon._reviews().review_token("t0")

    assert uvloop.run(story()) == User(name="scraper")
