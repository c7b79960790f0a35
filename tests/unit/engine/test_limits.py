"""A pod that asks for more than is looked at is told so, and costs nobody anything."""

from typing import Any

import pytest

from scheduler.api import limits
from scheduler.api.objects import Affinity, LabelSelector, PodAffinitySpec, PodAffinityTerm
from scheduler.api.pods import PodInfo
from scheduler.config.types import Extender
from scheduler.kernel.framework.runtime import Feasibility
from scheduler.kernel.framework.runtime.filtering import Filtering
from tests.support.storage import claims_of
from tests.unit.engine.engine import EngineUnderTest, Everything
from tests.unit.engine.extenders import FILTERS
from tests.unit.engine.test_pod_group_placements import Racks

TERM = PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=LabelSelector())
ANTI_AFFINITY = Affinity(
    pod_anti_affinity=PodAffinitySpec(
        required_during_scheduling_ignored_during_execution=(TERM,) * (limits.MAX_POD_TERMS + 1)
    )
)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(
            {"requests": {f"x.io/{i}": 1 for i in range(limits.MAX_RESOURCE_NAMES + 1)}},
            f"{limits.MAX_RESOURCE_NAMES + 1} requested resources",
            id="resources",
        ),
        pytest.param(
            {"node_selector": {f"k{i}": "v" for i in range(limits.MAX_NODE_REQUIREMENTS + 1)}},
            f"{limits.MAX_NODE_REQUIREMENTS + 1} node selector requirements",
            id="node selector",
        ),
        pytest.param(
            {"affinity": ANTI_AFFINITY},
            f"{limits.MAX_POD_TERMS + 1} pod affinity terms",
            id="terms",
        ),
        pytest.param(
            {"volumes": claims_of(*map(str, range(limits.MAX_VOLUMES + 1)))},
            f"{limits.MAX_VOLUMES + 1} volumes",
            id="volumes",
        ),
    ],
)
def test_a_pod_over_a_limit_is_rejected_with_its_name(fields: dict[str, Any], words: str) -> None:
    """In the event and in the condition; no plugin is asked, and others go on."""
    plugin = Everything()
    under_test = EngineUnderTest(plugin)
    under_test.add("huge", **fields)

    under_test.run()

    event, failed = under_test.told
    assert event[:2] == ("event", "huge")
    assert words in event[2]
    assert failed[2:4] == ("Unschedulable", event[2])
    assert plugin.diary == []
    under_test.add("small")
    under_test.run()
    assert [bind.name for bind in under_test.binds] == ["small"]


def test_extenders_are_not_asked_about_a_pod_over_a_limit() -> None:
    """Their nodes would have to be found first."""
    plugin = Everything()
    under_test = EngineUnderTest(plugin, extenders=(FILTERS,))
    under_test.add("huge", affinity=ANTI_AFFINITY)

    under_test.run()

    event, failed = under_test.told
    assert failed[2:4] == ("Unschedulable", event[2])
    assert plugin.diary == []


@pytest.mark.parametrize("extenders", [(), (FILTERS,)], ids=["none", "extenders"])
@pytest.mark.parametrize(("cpu", "bound"), [("1", 2), ("5", 0)], ids=["fits", "does not fit"])
def test_no_filter_judges_a_member_over_a_limit(
    extenders: tuple[Extender, ...], cpu: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while a rack is chosen nor for extenders; the others of its gang do not need it."""
    judged: list[str] = []
    original = Filtering.find_nodes_that_fit

    def judge(self: Filtering, pod: PodInfo, *rest: Any, **more: Any) -> Feasibility:
        judged.append(pod.name)
        return original(self, pod, *rest, **more)

    monkeypatch.setattr(Filtering, "find_nodes_that_fit", judge)
    racks = Racks("small", "large", "large", extenders=extenders)
    racks.pod("g-huge", group="g", affinity=ANTI_AFFINITY)
    racks.gang("g", 2, cpu=cpu)
    racks.run()
    racks.answer({"g-0": "n1", "g-1": "n2"})
    racks.run()

    assert "g-0" in judged
    assert "g-huge" not in judged
    assert racks.bound("g") == bound
    words = f"{limits.MAX_POD_TERMS + 1} pod affinity terms"
    assert any(words in message for message in racks.messages())
