"""Groups in racks whose members' columns say nothing: they are tried, and told what is wrong."""

from scheduler.api.objects import (
    Affinity,
    NodeAffinitySpec,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from scheduler.api.volume_sources import PersistentVolumeClaimVolumeSource, Volume
from tests.unit.engine.test_pod_group_placements import NONE_OF_TWO, Racks


def test_members_that_name_their_nodes_run_in_their_rack() -> None:
    """The rack with most room has none of these nodes."""
    racks = Racks("large", "large", "large", "named", "named")
    fields = [NodeSelectorRequirement("metadata.name", "In", (name,)) for name in ("n3", "n4")]
    named = NodeSelector(tuple(NodeSelectorTerm(match_fields=(field,)) for field in fields))

    racks.gang("g", 6, affinity=Affinity(NodeAffinitySpec(named)))
    racks.run()

    assert (racks.bound("g"), racks.racks("g")) == (6, {"named"})


def test_members_that_fit_nowhere_whatever_the_node_say_why() -> None:
    """Their claim does not exist."""
    racks = Racks("a", "b")
    claim = Volume(persistent_volume_claim=PersistentVolumeClaimVolumeSource("gone"))

    racks.gang("g", 2, volumes=[claim])
    racks.run()

    assert racks.condition() == ("Unschedulable", NONE_OF_TWO)
    assert any('persistentvolumeclaim "gone" not found' in each for each in racks.messages())
