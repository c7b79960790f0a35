"""What the endpoints show, in kube-scheduler's form."""

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop

from scheduler.daemon.serving.errors import ServingError
from scheduler.observability.logs import verbose
from tests.support.ports import free_port
from tests.unit.serving.harness import Instance, serving

Story = Callable[[Instance], Awaitable[None]]


@pytest.fixture(autouse=True)
def _level_as_before() -> Iterator[None]:
    yield
    verbose.level = 0


def _tell(story: Story, **options: Any) -> None:
    async def run() -> None:
        async with serving(serve_without_authorization=True, **options) as instance:
            await story(instance)

    uvloop.run(run())


@pytest.mark.parametrize(
    ("state", "path", "expected"),
    [
        pytest.param({}, "/healthz", (200, "ok"), id="healthy"),
        pytest.param(
            {},
            "/healthz?verbose",
            (200, "[+]leaderElection ok\nhealthz check passed\n"),
            id="healthy in detail",
        ),
        pytest.param(
            {},
            "/livez?verbose",
            (200, "[+]ping ok\n[+]port ok\nlivez check passed\n"),
            id="alive in detail",
        ),
        pytest.param(
            {"synced": False},
            "/readyz",
            (
                500,
                """[+]leaderElection ok
[+]shutdown ok
[-]sched-handler-sync failed, see the log
[+]watches ok
readyz check failed
""",
            ),
            id="not yet ready",
        ),
        pytest.param(
            {"synced": False},
            "/readyz/sched-handler-sync",
            (500, "internal server error: handlers are not fully synchronized\n"),
            id="why it is not yet ready",
        ),
        pytest.param(
            {"stopping": True},
            "/readyz?exclude=shutdown&exclude=nothing&verbose",
            (
                200,
                """[+]leaderElection ok
[+]shutdown excluded: ok
[+]sched-handler-sync ok
[+]watches ok
warn: "nothing" cannot be excluded, there is no such check
readyz check passed
""",
            ),
            id="a check left out",
        ),
        pytest.param({"stopping": True}, "/livez", (200, "ok"), id="stopping is still alive"),
        pytest.param(
            {"lease": "too late"},
            "/healthz",
            (500, "[-]leaderElection failed, see the log\nhealthz check failed\n"),
            id="a leader that cannot renew",
        ),
        pytest.param({}, "/readyz/shutdown", (200, "ok"), id="a single check"),
        pytest.param({}, "/readyz/none", (404, "404 page not found\n"), id="no such check"),
    ],
)
def test_health(state: dict[str, Any], path: str, expected: tuple[int, str]) -> None:
    """The texts are kube-scheduler's."""

    async def story(instance: Instance) -> None:
        instance.state.update(state)

        assert (await instance.get(path))[:2] == expected

    _tell(story)


def test_metrics_are_served_and_reset() -> None:
    """DELETE sets to zero what accumulates."""

    async def story(instance: Instance) -> None:
        attempts = instance.metrics.engine.schedule_attempts["scheduled", "p"]
        attempts.inc(3)
        status, text, headers = await instance.get("/metrics")
        deleted = await instance.get("/metrics", method="DELETE")

        assert status == 200
        assert 'scheduler_schedule_attempts_total{profile="p",result="scheduled"} 3.0\n' in text
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert deleted[:2] == (200, "metrics start anew\n")
        assert attempts.value == 0

    _tell(story)


def test_metrics_are_compressed_for_who_wants_it() -> None:
    """Prometheus does; what is read is the same."""

    async def story(instance: Instance) -> None:
        plain = await instance.get("/metrics", headers={"Accept-Encoding": "identity"})
        packed = await instance.get("/metrics", headers={"Accept-Encoding": "gzip"})

        assert "Content-Encoding" not in plain[2]
        assert packed[2]["Content-Encoding"] == "gzip"
        assert "stowage_build_info" in packed[1]

    _tell(story)


def test_results_of_health_checks_are_metrics() -> None:
    """Apart from the rest, as upstream serves them."""

    async def story(instance: Instance) -> None:
        await instance.get("/readyz")
        instance.state["synced"] = False
        await instance.get("/readyz")

        _, text, _ = await instance.get("/metrics/slis")

        for line in (
            '{name="shutdown",type="readyz"} 1.0',
            '{name="sched-handler-sync",type="readyz"} 0.0',
            's_total{name="sched-handler-sync",status="error",type="readyz"} 1.0',
            's_total{name="shutdown",status="success",type="readyz"} 2.0',
        ):
            assert f"\nkubernetes_healthcheck{line}\n" in text

    _tell(story)


def test_configuration_flags_and_status_are_shown() -> None:
    """As JSON, and as texts for people."""

    async def story(instance: Instance) -> None:
        instance.clock.advance(3723)
        _, configz, _ = await instance.get("/configz")
        _, flagz, _ = await instance.get("/flagz")
        _, statusz, _ = await instance.get("/statusz")

        assert json.loads(configz) == {"componentconfig": {"kind": "KubeSchedulerConfiguration"}}
        assert "\nsecure-port=" in flagz
        assert "Up:  1 hr 02 min 03 sec\n" in statusz
        assert "Kubernetes version:  1.36.3\n" in statusz

    _tell(story)


def test_cache_and_queue_are_shown_as_json() -> None:
    """Values JSON does not know are written as texts or lists."""

    async def story(instance: Instance) -> None:
        assert json.loads((await instance.get("/debug/cache"))[1]) == {"nodes": {"n1": [1, 2]}}
        assert json.loads((await instance.get("/debug/queue"))[1]) == []

    _tell(story)


def test_the_log_level_can_be_changed() -> None:
    """As with kube-scheduler; what is no level is refused."""

    async def story(instance: Instance) -> None:
        path = "/debug/flags/v"

        assert (await instance.get(path, method="PUT", data="4"))[0] == 200
        assert verbose.level == 4
        assert (await instance.get(path))[1] == "4\n"
        refused = await instance.get(path, method="PUT", data="x")
        assert refused[:2] == (400, 'expected a whole number, got "x"\n')
        assert (await instance.get(path, method="POST"))[0] == 405
        assert verbose.level == 4

    _tell(story)


def test_the_log_level_is_fixed_without_profiling() -> None:
    """enableProfiling: false takes the path away."""

    async def story(instance: Instance) -> None:
        assert (await instance.get("/debug/flags/v", method="PUT", data="4"))[0] == 404

    _tell(story, level_can_be_set=False)


def test_a_wrong_method_is_refused() -> None:
    """Nothing else happens."""

    async def story(instance: Instance) -> None:
        assert (await instance.get("/configz", method="POST"))[:2] == (405, "method not allowed\n")

    _tell(story)


def test_a_broken_endpoint_does_not_take_the_port_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The caller learns nothing, the log everything."""
    monkeypatch.setattr("scheduler.daemon.serving.endpoints.stowage_version", lambda: 1 / 0)

    async def story(instance: Instance) -> None:
        assert (await instance.get("/statusz"))[:2] == (500, "internal server error\n")
        assert (await instance.get("/healthz"))[0] == 200

    _tell(story)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_requests_are_logged_from_level_three(capsys: pytest.CaptureFixture[str]) -> None:
    """Without query and headers, where secrets may be."""

    async def story(instance: Instance) -> None:
        await instance.get("/healthz")
        verbose.level = 3
        await instance.get("/livez?x=secret", "operator-token")

    _tell(story)
    logged = [line for line in capsys.readouterr().err.splitlines() if '"HTTP"' in line]
    assert len(logged) == 1
    assert 'path="/livez"' in logged[0]
    assert "secret" not in logged[0]
    assert "operator-token" not in logged[0]


def test_a_port_in_use_is_one_clear_message() -> None:
    """Naming the flags."""
    port = free_port()

    async def story(_instance: Instance) -> None:
        async with serving(secure_port=port):
            pass

    with pytest.raises(ServingError, match=f"--secure-port={port}: cannot be listened on: addr"):
        _tell(story, secure_port=port)
