"""What instances run with, and what becomes of the profiles that others own."""

import asyncio
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from scheduler.config.load import load
from scheduler.config.problems import Problem
from scheduler.operator.configuring import plan
from scheduler.operator.drafts import MAX_BYTES
from scheduler.operator.packages import Wheel, WheelPlace
from scheduler.operator.plans import ConfigurationPlan
from scheduler.operator.reading import MAX_PROFILE_BYTES
from scheduler.operator.resources import Key
from tests.unit.operator.objects import make_profile, make_scheduler, planned

BASE = Path(__file__).parents[3] / "deploy" / "base"
ALL: dict[str, Any] = {"profileSelector": {}}
UNLIMITED: dict[str, Any] = {**ALL, "profilePermissions": "All"}
HOSTILE: dict[str, Any] = {
    "plugins": {"score": {"enabled": [{"name": f"NodeResourcesFi{i}"} for i in range(1000)]}}
}
FORBIDDEN: dict[str, tuple[dict[str, Any], str]] = {
    **{
        f"without {name} at {point}": (
            {"plugins": {point: {"disabled": [{"name": name}]}}},
            f"spec.plugins.{point}",
        )
        for point, name in [
            ("multiPoint", "TaintToleration"),
            ("filter", "NodeUnschedulable"),
            ("filter", "NodeResourcesFit"),
            ("filter", "InterPodAffinity"),
            ("preEnqueue", "SchedulingGates"),
            ("postFilter", "DefaultPreemption"),
            ("queueSort", "*"),
        ]
    },
    "another binder": (
        {"plugins": {"bind": {"enabled": [{"name": "DefaultBinder"}]}}},
        "spec.plugins.bind",
    ),
    "resources that do not count": (
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["a/b"]}}]},
        "spec.pluginConfig[0].args.ignoredResources",
    ),
    "affinity for all": (
        {"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {}}}]},
        "spec.pluginConfig[0].args.addedAffinity",
    ),
}
PACKING = {
    "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
    "pluginConfig": [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    ],
}
BROKEN = {
    "an unknown plugin": {"plugins": {"score": {"enabled": [{"name": "Nothing"}]}}},
    "a wrong argument": {
        "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}}]
    },
    "an unknown field": {"weights": {}},
    "no name": {"schedulerName": ""},
    "a name that is a number": {"schedulerName": 7},
    "plugins that are a list": {"plugins": ["NodeName"]},
}


def names_of(
    plan: ConfigurationPlan, name: str = "stowage", namespace: str = "stowage"
) -> list[str]:
    """The profiles in the configuration of an instance, as the daemon reads it."""
    text = plan.configurations[Key(namespace, name)].text
    assert text is not None
    return [profile.scheduler_name for profile in load(text).profiles]


def test_a_scheduler_that_says_nothing_runs_as_the_base_does() -> None:
    """Under the name of the object."""
    made = planned(make_scheduler()).configurations[Key("stowage", "stowage")].text

    assert made is not None
    assert load(made) == load((BASE / "config.yaml").read_bytes())


def test_the_lease_is_the_instances_own() -> None:
    """Whatever else is said of it."""
    election = {"leaseDuration": "30s"}
    plan = planned(make_scheduler("fast", "team", configuration={"leaderElection": election}))

    found = load(plan.configurations[Key("team", "fast")].text or "").leader_election
    assert (found.resource_namespace, found.resource_name) == ("team", "fast")
    assert found.lease_duration_seconds == 30


@pytest.mark.parametrize(
    ("spec", "is_refused"),
    [
        ({"configuration": {"leaderElection": {"leaderElect": False}}}, True),
        ({"extraArgs": ["--leader-elect=false"]}, True),
        ({"configuration": {"leaderElection": {"leaderElect": False}}, "replicas": 1}, False),
        (
            {
                "configuration": {"leaderElection": {"leaderElect": False}},
                "extraArgs": ["--leader-elect"],
            },
            False,
        ),
    ],
)
def test_several_replicas_elect_a_leader(spec: dict[str, Any], *, is_refused: bool) -> None:
    """Without an election all would place the same pods."""
    [found] = planned(make_scheduler(**spec)).configurations.values()

    assert [each.path for each in found.problems] == [("spec", "replicas")] * is_refused


def test_every_problem_is_told_with_its_path() -> None:
    """Paths lead into the Scheduler."""
    scheduler = make_scheduler(
        profiles=[{"schedulerName": "a"}, {"schedulerName": "b", **BROKEN["an unknown plugin"]}],
        configuration={"podMaxBackoffSeconds": -1, "podMaxBackof": 2},
        featureGates={"Nothing": True},
        extraArgs=["--lead", "-v=3"],
    )

    [found] = planned(scheduler).configurations.values()

    assert found.text is None
    told = "\n".join(map(str, found.problems))
    assert 'spec.profiles[1].plugins.score.enabled[0].name: there is no plugin "Nothing"' in told
    assert "spec.configuration.podMaxBackoffSeconds: " in told
    assert "spec.configuration.podMaxBackof: unknown field" in told
    assert "spec.extraArgs[0]: expected --FLAG=VALUE" in told
    assert "spec.extraArgs[1]" not in told


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--secure-port=1", "--secure-port is refused: probes and Service have the port 10259"),
        ("--config=/x", "--config is refused: set configuration and profiles"),
        ("--record=/tmp", "--record is refused: set recordings.volume"),
        ("--bind-address=127.0.0.1", "--bind-address=127.0.0.1 is refused: probes come from the"),
        ("--bind-address=::1", "--bind-address=::1 is refused: probes come from the"),
    ],
)
def test_flags_against_the_other_objects_are_refused(flag: str, reason: str) -> None:
    """The pods would never be ready, or use other files than those that are mounted."""
    [found] = planned(make_scheduler(extraArgs=["--profiling", flag])).configurations.values()

    [problem] = map(str, found.problems)
    assert problem.startswith(f"spec.extraArgs[1]: {reason}")


@pytest.mark.parametrize("flag", ["--decisions", "--v", "--kube-api-qps"])
def test_only_a_switch_may_stand_without_a_value(flag: str) -> None:
    """The daemon would take the next flag for the value."""
    [found] = planned(make_scheduler(extraArgs=["--profiling", flag])).configurations.values()

    assert list(map(str, found.problems)) == [
        f'spec.extraArgs[1]: expected --FLAG=VALUE, got "{flag}"'
    ]


def test_an_address_that_probes_reach_may_be_given() -> None:
    """Clusters without IPv4 need one."""
    [found] = planned(make_scheduler(extraArgs=["--bind-address=::"])).configurations.values()

    assert not found.problems


@pytest.mark.parametrize("spec", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_profile_takes_no_other_down(spec: dict[str, Any]) -> None:
    """It is left out and told why; the others, older and younger, stay."""
    plan = planned(
        make_scheduler(**ALL),
        make_profile("first", created=1, **PACKING),
        make_profile("broken", created=2, **spec),
        make_profile("last", created=3),
    )

    assert names_of(plan) == ["stowage", "first", "last"]
    verdict = plan.verdicts[Key("stowage", "broken")]
    assert verdict.reason == "Invalid"
    assert verdict.message
    assert verdict.in_force is None


def test_what_is_wrong_with_a_profile_is_told_by_path() -> None:
    """Into the SchedulingProfile."""
    plan = planned(make_scheduler(**ALL), make_profile("broken", **BROKEN["a wrong argument"]))

    [problem] = plan.verdicts[Key("stowage", "broken")].problems

    assert problem.path == ("spec", "pluginConfig", 0, "args", "hardPodAffinityWeight")


def test_a_profile_that_breaks_stays_as_it_was() -> None:
    """Pods go on to be decided by what was in force; the status says both."""
    before = {"schedulerName": "batch", **PACKING}
    broken = make_profile("batch", in_force=before, **BROKEN["an unknown plugin"])

    plan = planned(make_scheduler(**ALL), broken)

    assert names_of(plan) == ["stowage", "batch"]
    assert "MostAllocated" in (plan.configurations[Key("stowage", "stowage")].text or "")
    verdict = plan.verdicts[broken.key]
    assert (verdict.reason, verdict.in_force) == ("Invalid", before)
    assert "keeping the previous version" in verdict.message


@pytest.mark.parametrize(("spec", "path"), FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_a_team_ranks_nodes_and_lets_in_none(spec: dict[str, Any], path: str) -> None:
    """What decides where pods may run takes a field of the Scheduler; so it does in force."""
    before = {"schedulerName": "old", **spec}
    new, old = make_profile("new", **spec), make_profile("old", in_force=before, **spec)

    limited = planned(make_scheduler(**ALL), new, old, make_profile("good"))
    unlimited = planned(make_scheduler(**UNLIMITED), new)

    assert names_of(limited) == ["stowage", "good"]
    for profile in (new, old):
        verdict = limited.verdicts[profile.key]
        assert (verdict.reason, verdict.in_force) == ("NotPermitted", None)
        assert str(verdict.problems[0]).startswith(f"{path}: not permitted by profilePermissions")
    assert unlimited.verdicts[new.key].reason != "NotPermitted"


@pytest.mark.parametrize(
    "spec",
    [
        PACKING,
        {"percentageOfNodesToScore": 10},
        {"plugins": {"score": {"disabled": [{"name": "*"}]}, "preScore": {}}},
        {"plugins": {"score": {"enabled": [{"name": "CoolRacks", "weight": 7}]}}},
        {"pluginConfig": [{"name": "CoolRacks", "args": {"anything": [1]}}]},
        {
            "pluginConfig": [
                {
                    "name": "InterPodAffinity",
                    "args": {"kind": "InterPodAffinityArgs", "hardPodAffinityWeight": 7},
                }
            ]
        },
    ],
    ids=["arguments", "fewer nodes", "without", "a plugin of theirs", "its arguments", "typed"],
)
def test_what_a_team_may_say(spec: dict[str, Any]) -> None:
    """Weights, arguments about scores, and score plugins that the Scheduler has."""
    image = {"name": "x", "image": "registry.example/cool-racks:1", "provides": ["CoolRacks"]}
    profile = make_profile("p", **spec)

    plan = planned(make_scheduler(plugins=[image], **ALL), profile)

    assert plan.verdicts[profile.key].reason == "InForce"


def test_profiles_of_one_instance_sort_the_queue_alike() -> None:
    """Also where they may say everything."""
    profile = make_profile("p", plugins={"queueSort": {"disabled": [{"name": "*"}]}})

    plan = planned(make_scheduler(**UNLIMITED), profile)

    assert plan.verdicts[profile.key].reason == "Invalid"


def test_names_of_other_schedulers_are_refused() -> None:
    """The cluster's own always; another's unless the profile had it before."""
    new, old = make_profile("theirs"), make_profile("held", in_force={"schedulerName": "held"})
    default = make_profile("x", schedulerName="default-scheduler")
    default.status["inForce"] = {"schedulerName": "default-scheduler"}
    reserved = {"theirs": "Lease kube-system/theirs", "held": "Lease kube-system/held"}

    found = asyncio.run(plan([make_scheduler(**ALL)], [new, old, default], {}, {}, reserved))

    assert names_of(found) == ["stowage", "held"]
    assert {key.name: verdict.reason for key, verdict in found.verdicts.items()} == {
        "theirs": "Conflict",
        "held": "InForce",
        "x": "Conflict",
    }
    told = "spec.schedulerName: Lease kube-system/theirs has this name already"
    assert found.verdicts[new.key].message == told


def test_an_invalid_instance_keeps_the_names_that_it_serves() -> None:
    """Its daemon goes on answering to them, whatever the new version says."""
    status = {"schedulerNames": ["served"]}
    broken = make_scheduler(
        "broken", created=9, status=status, configuration={"podMaxBackoffSeconds": -1}
    )
    greedy = make_profile("served")

    plan = planned(broken, make_scheduler(**ALL), greedy)

    assert plan.configurations[broken.key].names == ("served",)
    assert plan.verdicts[greedy.key].reason == "Conflict"


def test_no_instance_is_called_default() -> None:
    """All pods that name no ServiceAccount would have its rights; nothing of it is made."""
    refused = make_scheduler("default", profiles=[{"schedulerName": "x"}])

    found = planned(refused).configurations[refused.key]

    assert (found.text, found.is_applied) == (None, False)
    [problem] = found.problems
    assert str(problem).startswith('metadata.name: expected another name than "default"')


def test_the_oldest_has_the_name() -> None:
    """Among profiles; an instance's own come first."""
    plan = planned(
        make_scheduler(created=9, **ALL),
        make_profile("b", created=2, schedulerName="batch"),
        make_profile("a", created=3, schedulerName="batch"),
        make_profile("c", created=1, schedulerName="stowage"),
    )

    assert names_of(plan) == ["stowage", "batch"]
    reasons = {key.name: verdict.reason for key, verdict in plan.verdicts.items()}
    assert reasons == {"a": "Conflict", "b": "InForce", "c": "Conflict"}
    message = plan.verdicts[Key("stowage", "a")].message
    assert message == "spec.schedulerName: SchedulingProfile stowage/b has this name already"


def test_two_instances_never_answer_to_one_name() -> None:
    """They would race for the same pods; the younger one is told."""
    plan = planned(
        make_scheduler("one", created=1, profiles=[{"schedulerName": "x"}]),
        make_scheduler("two", created=2, profiles=[{"schedulerName": "x"}]),
    )

    assert plan.configurations[Key("stowage", "one")].text is not None
    younger = plan.configurations[Key("stowage", "two")]
    assert younger.text is None
    assert "served by Scheduler stowage/one already" in str(younger.problems[0])


def serving(*names: str) -> dict[str, Any]:
    """The status of an instance that serves these names."""
    return {"schedulerNames": list(names)}


def own(*names: str) -> list[dict[str, str]]:
    """Profiles of an instance itself."""
    return [{"schedulerName": name} for name in names]


def test_a_name_stays_with_the_instance_that_serves_it() -> None:
    """Also if an older instance asks for it later: the younger one would go on serving it."""
    older = make_scheduler("one", created=1, profiles=own("a", "x"), status=serving("a"))
    younger = make_scheduler("two", created=2, profiles=own("x"), status=serving("x"))

    plan = planned(older, younger)

    assert names_of(plan, "two") == ["x"]
    found = plan.configurations[older.key]
    assert (found.text, found.names) == (None, ("a",))
    assert list(map(str, found.problems)) == [
        'spec.profiles[1].schedulerName: "x" is served by Scheduler stowage/two already'
    ]


@pytest.mark.parametrize("status", [serving("x"), serving()], ids=["both", "neither"])
def test_age_decides_between_instances_that_are_equal(status: dict[str, Any]) -> None:
    """Both serve the name, or neither does."""
    older, younger = (
        make_scheduler(name, created=i, profiles=own("x"), status=status)
        for i, name in enumerate(("one", "two"))
    )

    plan = planned(younger, older)

    assert names_of(plan, "one") == ["x"]
    assert plan.configurations[younger.key].text is None


def test_a_name_that_an_instance_gives_up_is_free() -> None:
    """Two may also exchange their names."""
    plan = planned(
        make_scheduler("one", created=1, profiles=own("y"), status=serving("x")),
        make_scheduler("two", created=2, profiles=own("x"), status=serving("y")),
    )

    assert (names_of(plan, "one"), names_of(plan, "two")) == (["y"], ["x"])


def test_an_instance_that_lacks_a_name_keeps_all_that_it_serves() -> None:
    """Its daemon goes on with the present configuration, also with what the spec gave up."""
    older = make_scheduler("one", created=1, profiles=own("y"), status=serving("one"))
    stopped = make_scheduler("two", created=2, profiles=own("z"), status=serving("y"))
    holder = make_scheduler("three", created=3, profiles=own("z"), status=serving("z"))

    plan = planned(older, stopped, holder)

    assert names_of(plan, "three") == ["z"]
    assert plan.configurations[stopped.key].names == ("y",)
    assert "served by Scheduler stowage/two already" in str(plan.configurations[older.key].problems)


def test_a_profile_cannot_rename_itself_to_a_name_in_force() -> None:
    """However old it is; it gets the name once the other has another one in force."""
    older = make_profile("old", created=1, schedulerName="x", in_force={"schedulerName": "old"})
    younger = make_profile("new", created=2, schedulerName="x", in_force={"schedulerName": "x"})

    plan = planned(make_scheduler(**ALL), older, younger)

    assert names_of(plan) == ["stowage", "old", "x"]
    verdict = plan.verdicts[older.key]
    assert (verdict.reason, verdict.in_force) == ("Conflict", {"schedulerName": "old"})
    assert plan.verdicts[younger.key].reason == "InForce"

    younger.status["inForce"] = {"schedulerName": "y"}
    younger.spec["schedulerName"] = "y"

    assert names_of(planned(make_scheduler(**ALL), older, younger)) == ["stowage", "x", "y"]


def test_a_profile_belongs_to_one_instance() -> None:
    """The oldest that selects it."""
    profile = make_profile("batch")
    plan = planned(
        make_scheduler("b", created=1, **ALL), make_scheduler("a", created=2, **ALL), profile
    )

    assert plan.verdicts[profile.key].scheduler == Key("stowage", "b")
    assert names_of(plan, "a") == ["a"]


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        pytest.param({}, [], id="without a selector none"),
        pytest.param({"profileSelector": {}}, ["near", "plain"], id="of its own namespace"),
        pytest.param(
            {"profileSelector": {"matchLabels": {"team": "x"}}}, ["near"], id="by its labels"
        ),
        pytest.param(
            {"profileSelector": {}, "profileNamespaceSelector": {}},
            ["far", "near", "plain"],
            id="of all namespaces",
        ),
        pytest.param(
            {"profileSelector": {}, "profileNamespaceSelector": {"matchLabels": {"open": "yes"}}},
            ["far"],
            id="of namespaces by their labels",
        ),
    ],
)
def test_who_is_selected(spec: dict[str, Any], chosen: list[str]) -> None:
    """As with Prometheus' selectors: a missing one is not an empty one."""
    plan = planned(
        make_scheduler(**spec),
        make_profile("near", labels={"team": "x"}),
        make_profile("plain"),
        make_profile("far", "elsewhere"),
        elsewhere={"open": "yes"},
        stowage={},
    )

    assert sorted(names_of(plan))[:-1] == chosen
    others = {key.name for key, verdict in plan.verdicts.items() if verdict.reason == "NotSelected"}
    assert others == {"near", "plain", "far"} - set(chosen)


def test_a_broken_instance_keeps_what_it_has_and_says_so_to_its_profiles() -> None:
    """Its configuration is not written anew, so what was in force there is."""
    before = {"schedulerName": "batch"}
    profile = make_profile("batch", in_force=before)
    profile.status["scheduler"] = "stowage/stowage"

    plan = planned(make_scheduler(configuration={"podMaxBackoffSeconds": -1}, **ALL), profile)

    verdict = plan.verdicts[profile.key]
    assert (verdict.reason, verdict.in_force) == ("SchedulerInvalid", before)


def test_a_wrong_selector_takes_no_profile_away() -> None:
    """The configuration stays as it was, and a profile that is broken now keeps its version."""
    before = {"schedulerName": "batch", **PACKING}
    profile = make_profile("batch", in_force=before, **BROKEN["an unknown plugin"])
    profile.status["scheduler"] = "stowage/stowage"
    wrong = {"matchExpressions": [{"key": "team", "operator": "In"}]}

    plan = planned(make_scheduler(profileSelector=wrong), profile)

    [problem] = map(str, plan.configurations[Key("stowage", "stowage")].problems)
    assert problem.startswith("spec.profileSelector: operator In of key 'team' expects")
    verdict = plan.verdicts[profile.key]
    assert (verdict.reason, verdict.in_force) == ("SchedulerInvalid", before)


def test_a_profile_is_in_force_only_where_it_was() -> None:
    """Another instance that selects it now, and cannot take it in, has no version of it."""
    profile = make_profile("batch", labels={"to": "b"}, in_force={"schedulerName": "batch"})
    profile.status["scheduler"] = "stowage/a"
    broken = {"configuration": {"podMaxBackoffSeconds": -1}}
    [a, b] = (
        make_scheduler(name, created=i, profileSelector={"matchLabels": {"to": name}}, **spec)
        for i, (name, spec) in enumerate({"a": {}, "b": broken}.items())
    )

    verdict = planned(a, b, profile).verdicts[profile.key]

    assert (verdict.reason, verdict.scheduler) == ("SchedulerInvalid", b.key)
    assert verdict.in_force is None


def test_an_unreadable_profile_is_told_why_and_stays_as_it_was() -> None:
    """Too deep or too large: nothing of it is used, and nothing of the others changes."""
    before = {"schedulerName": "batch", **PACKING}
    new = make_profile("new", unreadable="expected at most 64 levels of nesting, got 4500")
    old = make_profile("old", unreadable="expected at most 9 bytes, got 10", in_force=before)

    plan = planned(make_scheduler(**ALL), new, old, make_profile("good", created=1))

    assert names_of(plan) == ["stowage", "batch", "good"]
    assert plan.verdicts[new.key].message == f"spec: {new.unreadable}"
    assert {plan.verdicts[each.key].reason for each in (new, old)} == {"Invalid"}
    assert plan.verdicts[old.key].in_force == before


def test_an_unreadable_scheduler_stays_as_it_is() -> None:
    """Its objects are left alone, its names are its own, its profiles stay in force."""
    status = {"schedulerNames": ["mine"]}
    broken = make_scheduler("broken", created=9, unreadable="too deep", status=status)
    profile = make_profile("batch", in_force={"schedulerName": "batch"})
    profile.status["scheduler"] = str(broken.key)
    greedy = make_profile("greedy", schedulerName="mine", labels={"x": "y"})

    plan = planned(
        broken, make_scheduler(profileSelector={"matchLabels": {"x": "y"}}), profile, greedy
    )

    made = plan.configurations[broken.key]
    assert (made.text, made.names, made.is_applied) == (None, ("mine",), False)
    assert list(map(str, made.problems)) == ["spec: too deep"]
    verdict = plan.verdicts[profile.key]
    assert (verdict.reason, verdict.in_force) == ("SchedulerInvalid", {"schedulerName": "batch"})
    assert plan.verdicts[greedy.key].reason == "Conflict"


def test_whatever_one_object_raises_is_its_own() -> None:
    """A fault of ours met by one object is its verdict, not the end of the others."""
    odd = make_profile("odd")
    odd.metadata.labels["team"] = None  # what no server lets in
    odd.status["inForce"] = "text"
    broken = make_scheduler("broken", created=1, profiles=[{}], configuration={"x": {1, 2}})
    good = make_profile("good")

    plan = planned(make_scheduler(**ALL), broken, odd, good)

    assert plan.configurations[broken.key].text is None
    assert "cannot be read: TypeError" in str(plan.configurations[broken.key].problems)
    assert plan.verdicts[good.key].reason == "InForce"


def test_an_instance_that_is_leaving_serves_no_names() -> None:
    """Its names are free."""
    leaving = make_scheduler("old", is_leaving=True, **ALL)

    plan = planned(leaving, make_scheduler("new", created=1, profiles=[{"schedulerName": "old"}]))

    assert set(plan.configurations) == {Key("stowage", "new")}
    assert names_of(plan, "new") == ["old"]


def test_many_hands_cannot_fill_the_configuration() -> None:
    """A ConfigMap has an end; the oldest stay."""
    text = "x" * (MAX_PROFILE_BYTES - 200)
    spec = {"pluginConfig": [{"name": "Unknown", "args": {"text": text}}]}
    count = MAX_BYTES // len(text) + 3
    profiles = [make_profile(f"p{i:02}", created=i, **spec) for i in range(count)]

    plan = planned(make_scheduler(**ALL), *profiles)

    reasons = [plan.verdicts[each.key].reason for each in profiles]
    assert set(reasons[:20]) == {"InForce"}
    assert reasons[-1] == "Full"
    assert len(plan.configurations[Key("stowage", "stowage")].text or "") < 2**20


def test_a_profile_that_grows_as_yaml_is_refused_alone() -> None:
    """The ConfigMap holds YAML, and each level of nesting indents every line below it."""
    args: Any = [1] * 8000
    for _ in range(55):
        args = {"a": args}
    nested = make_profile("nested", pluginConfig=[{"name": "Unknown", "args": args}])
    good = make_profile("good", created=1)
    assert len(json.dumps(nested.spec)) < MAX_PROFILE_BYTES

    plan = planned(make_scheduler(**ALL), nested, good)

    assert plan.verdicts[nested.key].reason == "Invalid"
    assert "bytes as YAML" in plan.verdicts[nested.key].message
    assert names_of(plan) == ["stowage", "good"]


def test_what_fills_the_configuration_is_counted_as_it_is_written() -> None:
    """Nested lists take more room as YAML than as JSON."""
    args: Any = [1] * 300
    for _ in range(55):
        args = {"a": args}
    spec = {"pluginConfig": [{"name": "Unknown", "args": args}]}
    profiles = [make_profile(f"p{i:02}", created=i, **deepcopy(spec)) for i in range(40)]

    plan = planned(make_scheduler(**ALL), *profiles)

    text = plan.configurations[Key("stowage", "stowage")].text or ""
    assert MAX_BYTES - MAX_PROFILE_BYTES < len(text.encode()) <= MAX_BYTES
    assert plan.verdicts[profiles[-1].key].reason == "Full"


def test_plugins_of_images_are_known_by_their_names() -> None:
    """Without the image their names are mistakes."""
    profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": "CoolRacks", "weight": 2}]}}}]
    image = {"name": "x", "image": "registry.example/cool-racks:1", "provides": ["CoolRacks"]}

    without = planned(make_scheduler(profiles=profiles)).configurations.values()
    having = planned(make_scheduler(profiles=profiles, plugins=[image])).configurations.values()

    [problem] = [problem for found in without for problem in found.problems]
    assert problem.path == ("spec", "profiles", 0, "plugins", "multiPoint", "enabled", 0, "name")
    assert problem.message.startswith('there is no plugin "CoolRacks"')
    assert [found.problems for found in having] == [()]


def test_a_wheel_that_is_not_there_changes_nothing() -> None:
    """What runs goes on; the configuration is not written, and says where to look."""
    place = WheelPlace("stowage", "racks", "racks.whl")
    wheel = {"name": "x", "wheel": {"configMap": "racks", "key": "racks.whl"}}
    missing = Problem(("key",), "there is none")

    [found] = planned(
        make_scheduler(plugins=[wheel]), wheels={place: missing}
    ).configurations.values()

    assert found.text is None
    assert list(map(str, found.problems)) == ["spec.plugins[0].wheel.key: there is none"]


def test_feature_gates_are_those_of_the_daemon() -> None:
    """What a gate allows is allowed."""
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    profiles = [{"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": shape}}]}]
    gates = {"StorageCapacityScoring": True}

    off, on = (
        planned(make_scheduler(profiles=profiles, featureGates=each)).configurations
        for each in ({}, gates)
    )

    assert "needs the feature gate" in str(off[Key("stowage", "stowage")].problems)
    assert on[Key("stowage", "stowage")].problems == ()


def test_a_feature_gate_that_is_not_there_is_refused() -> None:
    """As the daemon would, unless its flag allows it."""

    def problems(**spec: Any) -> list[str]:
        gates = {"DRAWorkloadResourceClaims": True}
        [found] = planned(make_scheduler(featureGates=gates, **spec)).configurations.values()
        return list(map(str, found.problems))

    [refused] = problems()
    assert refused.startswith("spec.featureGates: DRAWorkloadResourceClaims=true is not part")
    assert problems(extraArgs=["--allow-unsupported"]) == []


def test_pod_groups_take_their_gates() -> None:
    """Both are set, or the message names the field; other APIs are a flag, and the last wins."""

    def problems(*gates: str, last: str = "") -> list[str]:
        more = [f"--feature-gates={last}"] if last else []
        scheduler = make_scheduler(
            featureGates=dict.fromkeys(gates, True),
            extraArgs=["--pod-group-apis=scheduling.x-k8s.io", *more],
        )
        [found] = planned(scheduler).configurations.values()
        return list(map(str, found.problems))

    assert problems("GenericWorkload", "GangScheduling") == []
    assert problems() == [
        "spec.extraArgs: expected the feature gates GangScheduling and GenericWorkload with it"
    ]
    assert problems("GenericWorkload", "GangScheduling", last="GangScheduling=false") == [
        "spec.extraArgs: expected the feature gates GangScheduling and GenericWorkload with it"
    ]
    [lacking, _] = problems("GangScheduling")
    assert lacking.startswith("spec.featureGates: GangScheduling is enabled, but depends on")


def test_what_the_daemon_would_refuse_is_not_valid() -> None:
    """An address that is none, a file that the pods do not have, a feature that is not there."""
    tls = {"caFile": "/etc/ca.crt", "certFile": "/etc/stowage-serving/tls.crt"}
    extenders = [
        {"urlPrefix": "htp://x", "filterVerb": "f"},
        {"urlPrefix": "https://x", "filterVerb": "f", "tlsConfig": tls | {"keyFile": "/k"}},
    ]

    [found] = planned(
        make_scheduler(
            configuration={"extenders": extenders},
            featureGates={"DRAWorkloadResourceClaims": True},
        )
    ).configurations.values()

    assert found.text is None
    told = "\n".join(map(str, found.problems))
    assert "spec.configuration.extenders[0].urlPrefix: expected http://HOST" in told
    where = "spec.configuration.extenders[1].tlsConfig.caFile"
    assert f"{where}: the daemon's pods have no file /etc/ca.crt" in told
    assert "spec.featureGates: DRAWorkloadResourceClaims=true is not part of this version" in told


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param(
            {"configuration": {"clientConnection": {"kubeconfig": "/etc/scheduler.conf"}}},
            "spec.configuration.clientConnection.kubeconfig: the daemon's pods have no file "
            "/etc/scheduler.conf; without it they use their ServiceAccount",
            id="of the configuration",
        ),
        pytest.param(
            {"extraArgs": ["--profiling", "--kubeconfig=/etc/scheduler.conf"]},
            "spec.extraArgs[1]: --kubeconfig: the daemon's pods have no file /etc/scheduler.conf",
            id="of a flag",
        ),
    ],
)
def test_files_of_a_control_plane_node_are_not_there(spec: dict[str, Any], problem: str) -> None:
    """As kubeadm writes them for kube-scheduler; the daemon would end at its start."""
    [found] = planned(make_scheduler(**spec)).configurations.values()

    assert list(map(str, found.problems)) == [problem]


def test_the_authority_of_the_cluster_is_in_every_pod() -> None:
    """A kubelet mounts it beside the token."""
    authority = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    tls = {"urlPrefix": "https://x", "filterVerb": "f", "tlsConfig": {"caFile": authority}}
    [found] = planned(
        make_scheduler(
            configuration={"extenders": [tls]}, extraArgs=[f"--client-ca-file={authority}"]
        )
    ).configurations.values()

    assert found.problems == ()


def test_flags_are_checked_together_with_the_configuration() -> None:
    """They override it, so the daemon would refuse both."""
    [found] = planned(
        make_scheduler(extraArgs=["--leader-elect-lease-duration=5s"])
    ).configurations.values()

    [problem] = found.problems
    assert problem.path == ("spec", "configuration", "leaderElection", "leaseDuration")
    assert problem.message == "leaseDuration must be more than renewDeadline, got 5s and 10s"


def test_files_that_the_pods_have_may_be_named() -> None:
    """Those of the certificate, and of packages that are images."""
    tls = {
        "caFile": "/plugins/racks/ca.crt",
        "certFile": "/etc/stowage-serving/tls.crt",
        "keyFile": "/etc/stowage-serving/tls.key",
    }
    extender = {"urlPrefix": "https://x", "filterVerb": "f", "tlsConfig": tls}
    image = {"name": "racks", "image": "registry.example/racks:1", "provides": ["Racks"]}
    serving = {"secretName": "tls"}

    without, having = (
        planned(make_scheduler(configuration={"extenders": [extender]}, **spec)).configurations
        for spec in ({}, {"serving": serving, "plugins": [image]})
    )

    key = Key("stowage", "stowage")
    assert [each.path[-1] for each in without[key].problems] == ["caFile"]
    assert having[key].problems == ()


def test_what_takes_a_restart_is_told_apart() -> None:
    """Profiles do not, extenders and other wheels do."""
    place = WheelPlace("stowage", "racks", "racks.whl")
    wheel = {"name": "x", "wheel": {"configMap": "racks", "key": "racks.whl"}}

    def restart(digest: str = "", **spec: Any) -> str:
        wheels = {place: Wheel(("CoolRacks",), digest)}
        [found] = planned(make_scheduler(**spec), wheels=wheels).configurations.values()
        assert found.text is not None
        return found.restart

    extender = {"urlPrefix": "http://x", "filterVerb": "f"}

    assert (
        restart() == restart(profiles=[PACKING], configuration={"podMaxBackoffSeconds": 20}) == ""
    )
    assert restart(configuration={"extenders": [extender]})
    assert restart(configuration={"extenders": [extender]}) == restart(
        configuration={"extenders": [dict(reversed(extender.items()))]}
    )
    assert restart(configuration={"enableProfiling": False}) == restart(
        configuration={"enableProfiling": False, "podMaxBackoffSeconds": 20}
    )
    assert restart(configuration={"enableProfiling": False}) != restart()
    assert restart(configuration={"enableProfiling": True}) == restart()
    assert len({restart(), restart("a", plugins=[wheel]), restart("b", plugins=[wheel])}) == 3


def test_texts_are_read_back_as_they_were_written() -> None:
    """`y` is a name, not a truth."""
    plan = planned(make_scheduler(profiles=[{"schedulerName": "y"}]))

    assert names_of(plan) == ["y"]
    text = plan.configurations[Key("stowage", "stowage")].text or ""
    assert yaml.safe_load(text)["profiles"] == [{"schedulerName": "y"}]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(args=VALUES)
def test_whatever_a_team_writes_the_file_is_read_as_it_was_written(args: Any) -> None:
    """Law: a profile that is taken in leaves a file that can be read, with all the others."""
    odd = make_profile("odd", pluginConfig=[{"name": "Unknown", "args": args}])
    plan = planned(make_scheduler(**ALL), odd, make_profile("plain", created=1))

    assert "plain" in names_of(plan)
    if plan.verdicts[odd.key].reason == "InForce":
        text = plan.configurations[Key("stowage", "stowage")].text or ""
        [profile] = [each for each in load(text).profiles if each.scheduler_name == "odd"]
        assert profile.raw_args("Unknown") == args


@given(spec=st.dictionaries(st.sampled_from(["plugins", "pluginConfig", "schedulerName"]), VALUES))
def test_nothing_a_team_writes_stops_the_others(spec: dict[str, Any]) -> None:
    """Law: whatever the spec is, there is a plan, and the others are in it."""
    plan = planned(make_scheduler(**ALL), make_profile("odd", **spec), make_profile("z", created=1))

    assert {"stowage", "z"} <= set(names_of(plan))


def test_others_have_their_turn_between_two_verdicts() -> None:
    """Many expensive profiles of one team stop neither the lease nor the probes."""
    profiles = [make_profile(f"p{number}", **HOSTILE) for number in range(5)]

    async def story() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await plan([make_scheduler(**ALL)], profiles, {}, {})
        counting.cancel()
        return turns

    assert asyncio.run(story()) >= len(profiles)


def test_after_many_problems_no_name_is_suggested() -> None:
    """A suggestion costs half a millisecond, and a profile may have thousands of wrong names."""
    found = planned(make_scheduler(**ALL), make_profile("p", **HOSTILE))
    [verdict] = found.verdicts.values()

    suggested = [problem for problem in verdict.problems if "did you mean" in problem.message]
    assert (len(verdict.problems), len(suggested)) == (1000, 20)
