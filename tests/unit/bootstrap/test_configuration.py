"""What a configuration asks for and this version does not do is refused, unless that is allowed."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.config.feature_gates import DEFAULTS, OTHERWISE_HERE
from scheduler.config.options import RunOptions
from scheduler.config.problems import ConfigError
from scheduler.daemon.bootstrap.configuration import read_configuration
from scheduler.observability.feature_gates import GATES
from scheduler.tools.cli.config import config

GANGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}
"""
SENTENCE = (
    'profiles[0].plugins.multiPoint.enabled: "GangScheduling" is not part of this version; '
    "--allow-unsupported goes on without it"
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "gangs.yaml"
    path.write_text(GANGS)
    return str(path)


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
    """All of them, by path, as `config` and the operator do; no password is shown."""
    file = tmp_path / "extenders.yaml"
    file.write_text(EXTENDER)

    with pytest.raises(ConfigError) as refused:
        read_configuration(RunOptions(config=str(file)), {})
    printed = CliRunner().invoke(config, [str(file)])

    told = str(refused.value)
    assert [str(each).partition(": ")[0] for each in refused.value.problems] == [
        "extenders[0].urlPrefix",
        "extenders[1].tlsConfig",
        "extenders[2].tlsConfig",
        "extenders[3].tlsConfig",
    ]
    assert "cannot read certificate file /nowhere" in told
    assert "secret" not in told
    assert (printed.exit_code, printed.stderr.strip()) == (2, told)


def test_what_is_asked_for_and_not_done_is_refused(file: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_configuration(RunOptions(config=file), {})

    assert [str(problem) for problem in refused.value.problems] == [SENTENCE]
    assert file in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "there"),
    [
        ("GangScheduling=true", "GangScheduling=false"),
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


def test_it_is_said_where_it_is_allowed(file: str) -> None:
    config, notices = read_configuration(RunOptions(config=file, allow_unsupported=True), {})

    assert [profile.scheduler_name for profile in config.profiles] == ["a"]
    assert SENTENCE in notices
