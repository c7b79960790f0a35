"""`/debug/explain`: the daemon says what stands in a pod's way, and what would help if asked."""

from tests.scenario.test_devices import claim, device_class, named, resource_slice
from tests.scenario.test_explaining import Asking, asking
from tests.scenario.world import Object


def test_a_daemon_tells_of_checks_and_changes() -> None:
    """Checks always, changes where they are asked for; what it advises works."""

    async def story(asked: Asking) -> None:
        world = asked.world
        world.pod("web", cpu="3")
        await world.bound("web")
        world.pod("late", cpu="2")
        await world.rejected("late")

        plain = await asked.explain("late")
        deep = await asked.explain("late", "&changes=1")

        assert "changes" not in plain
        assert deep["checks"] == plain["checks"] == [_fit_check()]
        assert [near["node"] for near in plain["nearest"]] == ["n"]
        by_kind = {change["kind"]: change for change in deep["changes"]}
        assert by_kind["lowerRequest"]["edits"] == [
            {"kind": "lowerRequest", "resource": "cpu", "requested": "2", "atMost": "1"}
        ]
        assert by_kind["evictPod"]["edits"] == [
            {"kind": "evictPod", "pod": "default/web", "node": "n", "priority": 0}
        ]
        assert by_kind["addNodes"]["edits"] == [{"kind": "addNodes", "like": "n", "count": 1}]
        world.pod("smaller", cpu="1")
        await world.bound("smaller")

    asking(story)


def test_a_pod_that_fits_has_no_checks() -> None:
    """There is nothing to explain away."""

    async def story(asked: Asking) -> None:
        asked.world.pod("web", cpu="1")
        await asked.world.bound("web")

        answer = await asked.explain("web", "&changes=1")

        assert not {"checks", "nearest", "changes", "guesses"} & answer.keys()

    asking(story)


def test_a_daemon_tells_which_claims_have_the_devices() -> None:
    """And what would help; claims and devices are afterwards as they were."""

    async def story(asked: Asking) -> None:
        world = asked.world
        world.sandbox.create(device_class(), resource_slice("n", "a", "b"))
        world.sandbox.create(claim("held"), claim("mine", count=2))
        world.pod("holder", resourceClaims=named("held"))
        await world.bound("holder")
        world.pod("late", resourceClaims=named("mine"))
        await world.rejected("late")

        deep = await asked.explain("late", "&changes=1")

        [obstacle] = deep["checks"][0]["obstacles"]
        assert obstacle["holders"] == [
            {"claim": "default/held", "devices": 1, "pods": ["default/holder"]}
        ]
        assert (obstacle["wanted"], obstacle["most"], obstacle["nearest"]) == (2, 1, "n")
        by_kind = {change["kind"]: change["edits"] for change in deep["changes"]}
        assert list(by_kind) == ["lowerCount", "freeClaim", "addNodes"]
        assert by_kind["freeClaim"] == [
            {
                "kind": "freeClaim",
                "claim": "default/held",
                "pods": ["default/holder"],
                "node": "n",
                "devices": 1,
            }
        ]
        again = await asked.explain("late", "&changes=1")
        # Its times are told by two clocks; other work may come between reading one and the other.
        for told in (again, deep):
            assert told.pop("schedulingState")["place"] == "unschedulable"
        assert again == deep
        world.sandbox.create(claim("one"))
        world.pod("smaller", resourceClaims=named("one"))
        await world.bound("smaller")

    asking(story)


def _fit_check() -> Object:
    return {
        "plugin": "NodeResourcesFit",
        "rejects": 1,
        "fitsWithout": 1,
        "obstacles": [
            {
                "kind": "resource",
                "resource": "cpu",
                "nodes": 1,
                "requested": 2000,
                "missing": 1000,
                "nearest": "n",
                "hopeless": 0,
            }
        ],
    }
