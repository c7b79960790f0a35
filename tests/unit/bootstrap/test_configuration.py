"""What a configuration asks for and this version does not do is refused, unless that is allowed."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest

from scheduler.config.feature_gates import DEFAULTS, OTHERWISE_HERE, POD_GROUPS, SWITCHES
from scheduler.config.options import RunOptions
from scheduler.config.problems import ConfigError
from scheduler.daemon.bootstrap.configuration import read_configuration
from scheduler.observability.feature_gates import GATES, declare_feature_gates
from scheduler.observability.instruments import Instruments
from scheduler.tools.cli.config import config

RACKS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins: {multiPoint: {enabled: [{name: TopologyPlacementGenerator}]}}
"""
EXTENDER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: "htp://user:secret@x", filterVerb: f}
- {urlPrefix: "https://x", filterVerb: f, enableHTTPS: true, tlsConfig: {caFile: /nowhere}}
- {urlPrefix: "https://x", filterVerb: f, tlsConfig: {caData: AAAA}}
- {urlPrefix: "https://x", filterVerb: f, tlsConfig: {certFile: /nowhere}}
- {urlPrefix: "http://x", filterVerb: f, tlsConfig: {caFile: /nowhere}}
"""


def test_extenders_that_cannot_be_asked_are_refused(tmp_path: Path) -> None:
    """All of them, by line and path, as `config` and the operator do; no password is shown.

    `config` accepts files that are not on its machine.
    """
    file = tmp_path / "extenders.yaml"
    file.write_text(EXTENDER)

    with pytest.raises(ConfigError) as refused:
        read_configuration(RunOptions(config=str(file)), {})
    printed = CliRunner().invoke(config, [str(file)])

    told = str(refused.value)
    assert [": ".join(str(each).split(": ")[:2]) for each in refused.value.problems] == [
        "line 5: extenders[0].urlPrefix",
        "line 6: extenders[1].tlsConfig",
        "line 7: extenders[2].tlsConfig",
        "line 8: extenders[3].tlsConfig",
    ]
    assert "cannot read certificate file /nowhere" in told
    assert "secret" not in told
    assert printed.exit_code == 2
    assert printed.stderr.splitlines()[1:] == [
        line for line in told.splitlines()[1:] if "/nowhere" not in line
    ]


@pytest.mark.parametrize(
    ("setting", "there"),
    [
        ("DRAWorkloadResourceClaims=true", "DRAWorkloadResourceClaims=false"),
        ("AllAlpha=true", "AllAlpha=false"),
        ("SchedulerQueueingHints=false", "SchedulerQueueingHints=true"),
    ],
)
def test_a_feature_gate_that_is_asked_for_and_not_there_is_refused(
    setting: str, there: str
) -> None:
    sentence = (
        f"featureGates: {setting} is not part of this version, which behaves as with {there}; "
        "--allow-unsupported goes on without it"
    )

    with pytest.raises(ConfigError) as refused:
        read_configuration(RunOptions(feature_gates=(setting,)), {})

    assert [str(problem) for problem in refused.value.problems] == [sentence]
    allowed = RunOptions(feature_gates=(setting,), allow_unsupported=True)
    assert sentence in read_configuration(allowed, {})[1]


@pytest.mark.parametrize(
    "setting",
    [
        "GangScheduling=false",
        "SchedulerAsyncPreemption=true",
        "OpportunisticBatching=false",
        "OpportunisticBatching=true",
        "StorageCapacityScoring=true",
        "NodeSwap=false",
    ],
)
def test_a_feature_gate_that_changes_nothing_is_accepted(setting: str) -> None:
    """A default, what this version does anyway, a switch, and gates of other components."""
    read_configuration(RunOptions(feature_gates=(setting,)), {})


def test_the_metric_of_feature_gates_says_what_is_refused() -> None:
    """`kubernetes_feature_enabled` and the refusals come from two tables that must agree."""
    behaviour = {name: is_on for name, (_, is_on) in GATES.items()}

    assert behaviour == {n: OTHERWISE_HERE.get(n, DEFAULTS[n]) for n in behaviour}
    assert OTHERWISE_HERE.keys() <= behaviour.keys()
    assert behaviour.keys() >= SWITCHES


def test_the_metric_of_feature_gates_says_what_is_turned_on() -> None:
    """A switch shows as it is set."""
    registry = CollectorRegistry()
    declare_feature_gates(Instruments(registry), POD_GROUPS)

    shown = generate_latest(registry).decode()

    assert 'kubernetes_feature_enabled{name="GangScheduling",stage="ALPHA"} 1.0' in shown
    assert 'kubernetes_feature_enabled{name="StorageCapacityScoring",stage="ALPHA"} 0.0' in shown


BOTH = ("GenericWorkload=true", "GangScheduling=true")


def refused(options: RunOptions) -> list[str]:
    """The problems with options that are not allowed, whatever is."""
    told = []
    for allows in (False, True):
        allowing = msgspec.structs.replace(options, allow_unsupported=allows)
        with pytest.raises(ConfigError) as caught:
            read_configuration(allowing, {})
        told.append([str(problem) for problem in caught.value.problems])
    assert told[0] == told[1]
    return told[0]


def test_gangs_take_two_feature_gates() -> None:
    """With both the plugin is part of the default profile, as in kube-scheduler."""
    config, notices = read_configuration(RunOptions(feature_gates=BOTH), {})

    [profile] = config.profiles
    assert profile.plugins.multi_point.enabled[-1].name == "GangScheduling"
    assert notices == ()
    [plain] = read_configuration(RunOptions(), {})[0].profiles
    assert "GangScheduling" not in plain.plugins.names()


def test_a_gate_without_the_one_it_depends_on_is_refused() -> None:
    """In upstream's words, and whatever else is allowed."""
    [told] = refused(RunOptions(feature_gates=("GangScheduling=true",)))

    assert told == (
        "featureGates: GangScheduling is enabled, but depends on features that are disabled: "
        "[GenericWorkload]"
    )


def test_generic_workload_alone_is_said_not_to_keep_gangs_together() -> None:
    """All groups are basic then, as in kube-scheduler."""
    told = (
        "featureGates: GenericWorkload=true without GangScheduling=true: no minCount of a pod "
        "group is looked at, and gangs may run by half"
    )

    assert read_configuration(RunOptions(feature_gates=BOTH[:1]), {})[1] == (told,)


def test_a_flag_has_no_line(tmp_path: Path) -> None:
    """It is not in the file, as the plugin is."""
    path = tmp_path / "gangs.yaml"
    path.write_text(RACKS)
    options = RunOptions(config=str(path), feature_gates=("DRAWorkloadResourceClaims=true",))

    with pytest.raises(ConfigError) as caught:
        read_configuration(options, {})

    told = [str(each).partition(": ")[0] for each in caught.value.problems]
    assert told == ["line 6", "featureGates"]


@pytest.mark.parametrize(
    ("plugin", "gate"),
    [
        ("GangScheduling", "GangScheduling"),
        ("PodGroupPodsCount", "TopologyAwareWorkloadScheduling"),
        ("TopologyPlacementGenerator", "TopologyAwareWorkloadScheduling"),
    ],
)
def test_a_plugin_without_its_gate_is_refused(tmp_path: Path, plugin: str, gate: str) -> None:
    """Nothing would keep the members of a gang together that no gate lets be read."""
    path = tmp_path / "gangs.yaml"
    path.write_text(RACKS.replace("TopologyPlacementGenerator", plugin))

    assert refused(RunOptions(config=str(path))) == [
        f'line 6: profiles[0].plugins: "{plugin}" needs the gate {gate}, which is off'
    ]
    gates = (*BOTH, "TopologyAwareWorkloadScheduling=true")
    read_configuration(RunOptions(config=str(path), feature_gates=gates), {})


def test_apis_of_others_need_the_gates() -> None:
    """Their groups are read as upstream's are, or not at all."""
    apis = ("scheduling.x-k8s.io",)

    assert refused(RunOptions(pod_group_apis=apis)) == [
        "podGroupApis: expected the feature gates GangScheduling and GenericWorkload with it"
    ]
    read_configuration(RunOptions(pod_group_apis=apis, feature_gates=BOTH), {})
