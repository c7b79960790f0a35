"""What the custom resources say of themselves."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.operator.resources import Json, Key, Scheduler
from scheduler.operator.status import profile_status, scheduler_status
from tests.unit.operator.objects import make_profile, make_scheduler, planned

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def status_of(
    scheduler: Scheduler | None = None,
    deployment: Json | None = None,
    *,
    failures: tuple[str, ...] = (),
    now: datetime = NOW,
) -> Json:
    """The status of an instance."""
    scheduler = scheduler or make_scheduler()
    [configuration] = planned(scheduler).configurations.values()
    return scheduler_status(
        scheduler, configuration, deployment=deployment, leader="pod-1", failures=failures, now=now
    )


def conditions(status: Json) -> dict[str, tuple[str, str]]:
    """Status and reason by type."""
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def running(replicas: int = 2, **status: Any) -> Json:
    """A Deployment as the server has it; complete unless it says otherwise."""
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), replicas)
    available = {
        "type": "Available",
        "status": "True",
        "reason": "MinimumReplicasAvailable",
        "message": "Deployment has minimum availability.",
    }
    return {
        "metadata": {"generation": 4},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 4, "conditions": [available], **counts, **status},
    }


@pytest.mark.parametrize(
    ("deployment", "failures", "available", "progressing"),
    [
        pytest.param(
            running(), (), ("True", "MinimumReplicasAvailable"), ("False", "Complete"), id="it runs"
        ),
        pytest.param(
            running(updatedReplicas=1),
            (),
            ("True", "MinimumReplicasAvailable"),
            ("True", "RollingOut"),
            id="a new version comes",
        ),
        pytest.param(
            running(observedGeneration=3),
            (),
            ("True", "MinimumReplicasAvailable"),
            ("True", "RollingOut"),
            id="the controller has not seen the change",
        ),
        pytest.param(
            running(replicas=2, conditions=[]),
            (),
            ("False", "Starting"),
            ("False", "Complete"),
            id="nothing said",
        ),
        pytest.param(
            running(),
            ("Service x: refused",),
            ("True", "MinimumReplicasAvailable"),
            ("True", "ApplyFailed"),
            id="something is refused",
        ),
        pytest.param(
            None, (), ("False", "NoDeployment"), ("False", "ConfigurationInvalid"), id="none"
        ),
    ],
)
def test_conditions_of_an_instance(
    deployment: Json | None,
    failures: tuple[str, ...],
    available: tuple[str, str],
    progressing: tuple[str, str],
) -> None:
    """Available as its Deployment is, Progressing until everything is as it is to be."""
    found = conditions(status_of(deployment=deployment, failures=failures))

    assert found == {
        "Available": available,
        "Progressing": progressing,
        "ConfigurationValid": ("True", "Valid"),
    }


def test_every_problem_stands_in_the_status() -> None:
    """As a list with paths, and as one message."""
    configuration = {"podMaxBackoffSeconds": -1, "parallelism": 0}
    status = status_of(make_scheduler(configuration=configuration))

    assert {each["path"] for each in status["problems"]} == {
        "spec.configuration.podMaxBackoffSeconds",
        "spec.configuration.parallelism",
    }
    assert conditions(status)["ConfigurationValid"] == ("False", "Invalid")
    assert "spec.configuration.parallelism: expected 1 or more, got 0" in str(status["conditions"])


def test_profiles_stay_in_force_where_the_configuration_stays() -> None:
    """They are counted as they were."""
    broken = make_scheduler(configuration={"podMaxBackoffSeconds": -1}, status={"profiles": "2/3"})

    assert status_of(broken)["profiles"] == "2/3"
    assert status_of(make_scheduler(status={"profiles": "2/3"}))["profiles"] == "0/0"


def test_facts_about_an_instance() -> None:
    """For columns and for people."""
    status = status_of(deployment=running())

    assert status["observedGeneration"] == 3
    assert status["leader"] == "pod-1"
    assert status["schedulerNames"] == ["stowage"]
    assert (status["replicas"], status["availableReplicas"]) == (2, 2)
    assert status["profiles"] == "0/0"


def test_a_condition_keeps_the_time_since_when_it_holds() -> None:
    """Nothing is written when nothing has changed; only what changes gets a new time."""
    first = status_of(deployment=running())
    later = NOW + timedelta(hours=1)

    again = status_of(make_scheduler(status=first), running(), now=later)
    changed = status_of(make_scheduler(status=first), running(updatedReplicas=1), now=later)

    assert again == first
    since = {each["type"]: each["lastTransitionTime"] for each in changed["conditions"]}
    assert since["Progressing"] == "2026-01-01T01:00:00Z"
    assert since["Available"] == "2026-01-01T00:00:00Z"


def test_messages_have_an_end() -> None:
    """What people write must not grow the status beyond what the server takes."""
    names = [{"schedulerName": f"{i}", "x" * 500: 1} for i in range(200)]
    status = status_of(make_scheduler(profiles=names))

    assert len(status["problems"]) == 50
    assert max(len(each["message"]) for each in status["conditions"]) <= 32_768


def test_what_a_profile_says() -> None:
    """Whether it is accepted, by whom, and what is in force."""
    profile = make_profile("batch")
    scheduler = make_scheduler(profileSelector={})
    verdict = planned(scheduler, profile).verdicts[profile.key]

    status = profile_status(profile, verdict, NOW)

    assert conditions(status) == {"Accepted": ("True", "InForce")}
    assert status["scheduler"] == str(Key("stowage", "stowage"))
    assert status["inForce"] == {"schedulerName": "batch"}
    assert status["schedulerName"] == "batch"


def test_a_profile_that_is_not_selected_says_so() -> None:
    """It is in force nowhere."""
    profile = make_profile("batch", in_force={"schedulerName": "batch"})

    status = profile_status(profile, planned(profile).verdicts[profile.key], NOW)

    assert conditions(status) == {"Accepted": ("False", "NotSelected")}
    assert (status["inForce"], status["scheduler"]) == (None, "")
