"""No team takes more than its quota, whatever becomes of its pods."""

import random
from collections import Counter
from typing import Any

import pytest
from team_quota import TEAM, TeamQuota, TeamUsage

from scheduler.plugin import (
    ConfigError,
)
from scheduler.testing import Cluster, Manifest, node, pod

OVER = "team red would exceed its quota of cpu"


def of_team(name: str, *, team: str = "red", cpu: str = "1", **options: Any) -> Manifest:
    return pod(name, labels={TEAM: team}, requests={"cpu": cpu}, **options)


@pytest.fixture
def quotas(cluster: Cluster) -> Cluster:
    """Two cores for red and for blue, on nodes that have more."""
    cluster.enable(TeamQuota, args={"quotas": {"red": {"cpu": "2"}, "blue": {"cpu": "2"}}})
    cluster.add(node("a"), node("b"))
    return cluster


def used(cluster: Cluster) -> dict[str, int]:
    return {team: found["cpu"] for team, found in cluster.shared(TeamUsage).used.items()}


def test_a_team_gets_its_quota_and_no_more(quotas: Cluster) -> None:
    quotas.schedule(of_team("r1")).must_land_on("a", "b")
    quotas.schedule(of_team("r2")).must_land_on("a", "b")

    quotas.schedule(of_team("r3")).must_wait(because=OVER)

    quotas.schedule(of_team("b1", team="blue")).must_land_on("a", "b")
    quotas.schedule(pod("nobody's", requests={"cpu": "3"})).must_land_on("a", "b")
    quotas.schedule(of_team("g1", team="green", cpu="2")).must_land_on("a", "b")


def test_everything_counts_within_one_go(quotas: Cluster) -> None:
    """Decisions that follow each other at once see each other."""
    quotas.add(*(of_team(f"r{i}") for i in range(5)))
    quotas.advance(30)

    assert used(quotas) == {"red": 2000}
    assert sum(bool(quotas.node_of(f"r{i}")) for i in range(5)) == 2


def test_pods_that_run_already_count(quotas: Cluster) -> None:
    """A scheduler that takes over knows what is used."""
    quotas.add(of_team("r1", cpu="2", node="a"))

    quotas.schedule(of_team("r2")).must_wait(because=OVER)


def test_a_deleted_pod_makes_room_for_its_team(quotas: Cluster) -> None:
    quotas.schedule(of_team("r1", cpu="2"))
    quotas.schedule(of_team("r2", cpu="2")).must_wait(because=OVER)
    quotas.schedule(of_team("b1", team="blue", cpu="2"))

    quotas.delete("b1")
    quotas.advance(60)
    assert quotas.node_of("r2") == ""
    quotas.delete("r1")
    quotas.advance(60)

    assert quotas.node_of("r2")
    assert used(quotas) == {"red": 2000, "blue": 0}


def test_a_refused_binding_gives_the_quota_back(quotas: Cluster) -> None:
    with quotas.bindings_refused():
        quotas.schedule(of_team("r1", cpu="2")).must_wait(because="refused by the test")
    assert used(quotas) == {"red": 0}

    quotas.schedule(of_team("r2")).must_land_on("a", "b")
    quotas.advance(60)

    assert used(quotas) == {"red": 1000}
    assert quotas.node_of("r1") == ""


def test_nobody_is_evicted_in_vain(quotas: Cluster) -> None:
    """A pod over its quota fits nowhere, whoever leaves."""
    quotas.schedule(of_team("r1", cpu="2"))

    decision = quotas.schedule(of_team("r2", cpu="2", priority=100))

    decision.must_wait(because=OVER)
    decision.must_evict()


def test_what_is_counted_is_what_runs(quotas: Cluster) -> None:
    """Through any history the state equals the sum over the pods."""
    chance = random.Random(7)
    teams, alive = ("red", "blue", "green"), dict[str, Manifest]()
    for i in range(200):
        name = f"p{i}"
        made = of_team(name, team=chance.choice(teams), cpu=chance.choice(("500m", "1")))
        refuses = chance.random() < 0.2
        if refuses:
            with quotas.bindings_refused():
                quotas.schedule(made)
        else:
            quotas.schedule(made)
        alive[name] = made
        if chance.random() < 0.5:
            gone = chance.choice(sorted(alive))
            quotas.delete(gone)
            del alive[gone]
        if chance.random() < 0.2:
            quotas.advance(chance.choice((1, 10)))

        expected = Counter[str](dict.fromkeys(used(quotas), 0))
        for name, manifest in alive.items():
            if quotas.node_of(name):
                cpu = manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"]
                expected[manifest["metadata"]["labels"][TEAM]] += 500 if cpu == "500m" else 1000
        assert used(quotas) == expected
        assert max(used(quotas)["red"], used(quotas)["blue"]) <= 2000 if i > 20 else True


def test_a_fork_goes_its_own_way(quotas: Cluster) -> None:
    quotas.schedule(of_team("r1"))
    usage = quotas.shared(TeamUsage)

    fork = usage.fork()
    quotas.delete("r1")

    assert (fork.used["red"]["cpu"], usage.used["red"]["cpu"]) == (1000, 0)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(None, 'plugin "TeamQuota" has to be told something: args.quotas', id="none"),
        pytest.param({"quotas": {"red": {"cpu": 2}}}, "quotas.red.cpu: expected a text", id="type"),
        pytest.param({"quotas": {"red": {"cpu": "two"}}}, "two", id="no quantity"),
        pytest.param({"quota": {}}, 'did you mean "quotas"?', id="misspelt"),
    ],
)
def test_quotas_that_cannot_be_read(
    cluster: Cluster, args: dict[str, Any] | None, message: str
) -> None:
    cluster.enable(TeamQuota, args=args)

    with pytest.raises(ConfigError) as refused:
        cluster.add(node("a"))

    assert message in str(refused.value)
