"""Older configurations become v1, and place pods as before."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from scheduler.config.expansion import expand
from scheduler.config.load import load
from scheduler.config.migrate import migrate
from scheduler.config.plugin_sets import IN_TREE
from scheduler.config.problems import ConfigError
from scheduler.config.types import ExtensionPoint, KubeSchedulerConfiguration

BETA = "apiVersion: kubescheduler.config.k8s.io/{}\nkind: KubeSchedulerConfiguration\n"
PACKING = """
apiVersion: v1
kind: Policy
hardPodAffinitySymmetricWeight: 10
predicates:
- name: GeneralPredicates
- name: CheckNodeMemoryPressure
- name: MaxEBSVolumeCount
- {name: Fast, argument: {labelsPresence: {labels: [disk, fast], presence: true}}}
priorities:
- {name: MostRequestedPriority, weight: 5}
- {name: SelectorSpreadPriority, weight: 2}
- {name: EqualPriority, weight: 1}
extenders:
- {urlPrefix: "http://127.0.0.1:1/x", filterVerb: f, enableHttps: true, httpTimeout: 30000000000}
"""


def migrated(text: str) -> tuple[KubeSchedulerConfiguration, list[str]]:
    notes: list[str] = []
    written = migrate(text, source="old.yaml", out_of_tree={}, note=notes.append)
    return load(written), notes


def weights(config: KubeSchedulerConfiguration) -> dict[str, int]:
    return dict(expand(config.profiles[0], IN_TREE)[ExtensionPoint.SCORE])


def at(config: KubeSchedulerConfiguration, point: ExtensionPoint) -> set[str]:
    return {name for name, _ in expand(config.profiles[0], IN_TREE)[point]}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("v1beta2", (1, 1, 1, 2), id="v1beta2 keeps the weights of its time"),
        pytest.param("v1beta3", (2, 2, 3, 2), id="v1beta3 has those of v1"),
    ],
)
def test_default_weights(version: str, expected: tuple[int, ...]) -> None:
    """Those of three plugins grew with v1beta3."""
    config, notes = migrated(BETA.format(version))

    found = weights(config)
    names = ("InterPodAffinity", "NodeAffinity", "TaintToleration", "PodTopologySpread")
    assert tuple(found[name] for name in names) == expected
    assert config.profiles[0].scheduler_name == "default-scheduler"
    assert notes == ["profiles[0].schedulerName: default-scheduler, which was the default"]


def test_what_was_written_wins() -> None:
    """Weights, arguments and what is off; what is gone is named."""
    config, notes = migrated(
        BETA.format("v1beta2")
        + """
healthzBindAddress: 0.0.0.0:10251
leaderElection: {resourceLock: endpointsleases}
profiles:
- schedulerName: mine
  plugins:
    filter: {enabled: [{name: EBSLimits}]}
    score:
      enabled: [{name: TaintToleration, weight: 9}, {name: SelectorSpread, weight: 1}]
      disabled: [{name: NodeAffinity}, {name: NodePreferAvoidPods}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1beta2
      kind: NodeResourcesFitArgs
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""
    )

    found = weights(config)
    assert (found["TaintToleration"], found["InterPodAffinity"]) == (9, 1)
    assert "NodeAffinity" not in found
    assert config.leader_election.resource_lock == "leases"
    assert [note.split(":")[0] for note in notes] == [
        "healthzBindAddress",
        "leaderElection.resourceLock",
        '"EBSLimits"',
        '"SelectorSpread"',
    ]


def test_a_policy() -> None:
    """Predicates filter, priorities score, the rest is off; later plugins stay on."""
    config, notes = migrated(PACKING)

    found = weights(config)
    assert (found.pop("NodeResourcesFit"), found.pop("PodTopologySpread")) == (5, 2)
    assert found.keys() <= {"DynamicResources", "VolumeBinding"}
    assert at(config, ExtensionPoint.FILTER) == {
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeVolumeLimits",
        "DynamicResources",
        "NodeDeclaredFeatures",
    }
    document = yaml.safe_load(migrate(PACKING, source="p", out_of_tree={}, note=lambda _: None))
    configs = {c["name"]: c["args"] for c in document["profiles"][0]["pluginConfig"]}
    assert configs["InterPodAffinity"] == {"hardPodAffinityWeight": 10}
    assert configs["NodeResourcesFit"] == {"scoringStrategy": {"type": "MostAllocated"}}
    assert str(configs["NodeAffinity"]).count("'operator': 'Exists'") == 2
    [extender] = config.extenders
    assert (extender.enable_https, extender.http_timeout_seconds) == (True, 30.0)
    assert [note.partition(":")[0] for note in notes] == ["EqualPriority", "schedulerName"]


def test_a_policy_that_names_nothing() -> None:
    """Has the defaults of its time."""
    config, _ = migrated("{kind: Policy, apiVersion: v1}")

    found = weights(config)
    assert (found["PodTopologySpread"], found["TaintToleration"]) == (3, 1)
    assert "InterPodAffinity" in at(config, ExtensionPoint.FILTER)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("- a", "expected a mapping with apiVersion and kind", id="a list"),
        pytest.param("kind: Deployment", 'expected "KubeSchedulerConfiguration" or', id="other"),
        pytest.param(BETA.format("v1beta1"), "v1beta2, v1beta3 or v1", id="too old"),
        pytest.param(
            BETA.format("v1beta2")
            + "profiles: [{plugins: {filter: {enabled: [{name: NodeLabel}]}}}]",
            'profiles[0].plugins.filter.enabled[0].name: "NodeLabel" is no more',
            id="a plugin without counterpart",
        ),
        pytest.param(
            BETA.format("v1beta3") + "parallelism: 0", "migrated: parallelism", id="was wrong"
        ),
        pytest.param(
            "{kind: Policy, priorities: [{name: P, argument: {serviceAntiAffinity: {}}}]}",
            'priorities[0]: "P" has no counterpart in v1',
            id="a priority without counterpart",
        ),
        pytest.param(
            "{kind: Policy, predicates: 7}", "predicates: expected a list, got 7", id="no list"
        ),
        pytest.param(
            "{kind: Policy, predicates: [7]}", "predicates[0]: expected a mapping", id="no entry"
        ),
        pytest.param(
            "{kind: Policy, priorities: [{name: MostRequestedPriority},"
            " {name: LeastRequestedPriority}]}",
            "expected one strategy of NodeResourcesFit, got MostAllocated, LeastAllocated",
            id="two strategies",
        ),
    ],
)
def test_what_cannot_be_migrated(text: str, expected: str) -> None:
    """One message that names the place."""
    with pytest.raises(ConfigError) as caught:
        migrate(text, source="old.yaml", out_of_tree={}, note=lambda _: None)

    assert expected in str(caught.value)
    assert str(caught.value).startswith("old.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("profiles: 3", "profiles: expected a list"),
        ("profiles: [{plugins: [a]}]", "profiles[0].plugins: expected a mapping"),
        ("profiles: [{plugins: {score: [a]}}]", "profiles[0].plugins.score: expected a mapping"),
        (
            "profiles: [{plugins: {score: {enabled: [NodeAffinity]}}}]",
            'profiles[0].plugins.score.enabled[0]: expected "name: NodeAffinity"',
        ),
        ("profiles: [{pluginConfig: 3}]", "profiles[0].pluginConfig: expected a list"),
    ],
)
def test_a_malformed_profile_is_one_line(text: str, expected: str) -> None:
    """With its path in the file as it was written."""
    with pytest.raises(ConfigError, match=f"^old.yaml: line 3: {re.escape(expected)}"):
        migrate(BETA.format("v1beta2") + text, source="old.yaml", out_of_tree={}, note=print)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("priorities: [{name: ImageLocalityPriority, weight: a}]", "priorities[0].weight: "),
        (
            "predicates: [{name: P, argument: {labelsPresence: [1]}}]",
            "predicates[0].argument.labelsPresence: expected a mapping",
        ),
        ("predicate: []", 'predicate: unknown field; did you mean "predicates"?'),
        (
            "priorities: [{name: ImageLocalityPriority, wieght: 5}]",
            'priorities[0].wieght: unknown field; did you mean "weight"?',
        ),
        (
            "predicates: [{name: HostName, x: 1}]",
            "predicates[0].x: unknown field; known here: name, argument",
        ),
        (
            "predicates: [{name: HostName, argument: 3}]",
            "predicates[0].argument: expected a mapping",
        ),
    ],
)
def test_a_malformed_policy_is_one_line(text: str, expected: str) -> None:
    """The same."""
    with pytest.raises(ConfigError, match=f"^old.yaml: line 2: {re.escape(expected)}"):
        migrate(f"kind: Policy\n{text}", source="old.yaml", out_of_tree={}, note=print)


WHOLE = (
    BETA.format("v1beta2")
    + """
leaderElection: {resourceLock: endpoints}
profiles:
- schedulerName: a
  plugins:
    multiPoint: {disabled: [{name: NodeAffinity}]}
    score: {enabled: [{name: ImageLocality, weight: 3}], disabled: [{name: TaintToleration}]}
  pluginConfig:
  - {name: NodeResourcesFit, args: {apiVersion: kubescheduler.config.k8s.io/v1beta2}}
"""
)


@pytest.mark.parametrize("text", [WHOLE, PACKING], ids=["beta", "policy"])
def test_nonsense_anywhere_is_told(text: str) -> None:
    """Whatever stands in place of a value: it is migrated, or refused in one message."""
    for path in paths(yaml.safe_load(text)):
        for nonsense in (3, "a", ["a"], {"a": 1}):
            document = {"": yaml.safe_load(text)}
            parent: Any = document
            for step in ("", *path)[:-1]:
                parent = parent[step]
            parent[("", *path)[-1]] = nonsense
            with suppress(ConfigError):
                migrate(yaml.safe_dump(document[""]), source="f", out_of_tree={}, note=print)


def paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """The place of each value in a document."""
    yield ()
    steps = enumerate(value) if isinstance(value, list) else ()
    for step, item in value.items() if isinstance(value, dict) else steps:
        yield from ((step, *rest) for rest in paths(item))


def test_v1_stays_as_it_is() -> None:
    """With a note; nothing is lost by asking."""
    notes: list[Any] = []
    text = BETA.format("v1") + "parallelism: 3\n"

    assert yaml.safe_load(migrate(text, source="f", out_of_tree={}, note=notes.append)) == (
        yaml.safe_load(text)
    )
    assert notes == ["it is v1 already; nothing is changed"]


@pytest.mark.parametrize("name", ["1e3", "y", "0o17", "1_000", "12e456", "null", "é"])
def test_a_text_stays_a_text(name: str) -> None:
    """What only quotes make a text for kube-scheduler has quotes in the output too."""
    config, _ = migrated(BETA.format("v1beta3") + f'profiles: [{{schedulerName: "{name}"}}]')

    assert config.profiles[0].scheduler_name == name
