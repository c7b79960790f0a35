"""Hot racks take no pods, cool ones take them first."""

import pytest
from cool_racks import CoolRacks

from scheduler.plugin import (
    ConfigError,
)
from scheduler.testing import Cluster, Manifest, node, pod


def rack(name: str, celsius: str) -> Manifest:
    return node(name, labels={"acme.com/rack-celsius": celsius})


def test_the_coolest_rack_is_preferred(cluster: Cluster) -> None:
    cluster.enable(CoolRacks, weight=5)
    cluster.add(rack("cool", "19"), rack("warm", "30"), rack("hot", "41"))

    decision = cluster.schedule(pod("p"))

    decision.must_land_on("cool")
    scores = {found.node: found.scores for found in decision.answer.nodes if found.feasible}
    assert scores["cool"]["CoolRacks"].normalized == 94
    assert scores["warm"]["CoolRacks"].weighted == 5 * 29
    assert "hot" not in scores


def test_a_pod_waits_until_a_rack_has_cooled_down(cluster: Cluster) -> None:
    cluster.enable(CoolRacks)
    cluster.add(rack("a", "35"), rack("b", "99"))
    cluster.schedule(pod("p")).must_wait(because="2 node(s) were in a hot rack")

    cluster.add(rack("b", "40"))
    cluster.advance(60)
    assert cluster.node_of("p") == ""
    cluster.add(rack("b", "34.9"))
    cluster.advance(60)

    assert cluster.node_of("p") == "b"


@pytest.mark.parametrize("celsius", ["", "mild", "nan"])
def test_what_cannot_be_read_is_neither_hot_nor_cool(cluster: Cluster, celsius: str) -> None:
    cluster.enable(CoolRacks, weight=5)
    cluster.add(rack("unknown", celsius), rack("cool", "20"), rack("warm", "30"))

    decision = cluster.schedule(pod("p"))

    decision.must_land_on("cool")
    [unknown] = [found for found in decision.answer.nodes if found.node == "unknown"]
    assert unknown.feasible
    assert unknown.scores["CoolRacks"].normalized == 50


def test_other_limits_under_another_label(cluster: Cluster) -> None:
    cluster.enable(CoolRacks, args={"label": "t", "cool": 0, "hot": 10})
    cluster.add(node("a", labels={"t": "10"}), node("b", labels={"t": "9"}))

    cluster.schedule(pod("p")).must_land_on("b")


def test_limits_that_contradict_each_other(cluster: Cluster) -> None:
    cluster.enable(CoolRacks, args={"cool": 40})

    with pytest.raises(ConfigError, match="cool must be less than hot, got 40 and 35"):
        cluster.add(node("a"))
