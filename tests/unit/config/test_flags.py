"""An existing kube-scheduler command line works, and flags override as upstream's do."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from scheduler.config.command_line import CONTEXT_SETTINGS, FlagCommand, flag_options
from scheduler.config.feature_gates import STORAGE_CAPACITY_SCORING, turned_on
from scheduler.config.flags import BY_NAME, FlagError, options_from_flags
from scheduler.config.options import RunOptions, effective_configuration
from scheduler.config.problems import ConfigError

HERE = Path(__file__).parent
FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /from/file}
leaderElection: {leaseDuration: 30s, resourceName: mine}
"""


@click.command(cls=FlagCommand, context_settings=CONTEXT_SETTINGS)
@click.option("--seed", type=int, help="A flag of the command's own.")
@flag_options
def command(options: RunOptions, seed: int | None) -> None:
    """Repeat what was understood."""
    print(repr((seed, options)))


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def _understood(*arguments: str) -> RunOptions:
    found: list[RunOptions] = []

    @click.command(context_settings=CONTEXT_SETTINGS)
    @flag_options
    def catch(options: RunOptions) -> None:
        found.append(options)

    result = CliRunner().invoke(catch, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_every_flag_of_kube_scheduler_is_known() -> None:
    """The list is recorded from `kube-scheduler --help`, 1.36.3."""
    theirs = set((HERE / "kube-scheduler-flags.txt").read_text().split())

    assert theirs - set(BY_NAME) == set()
    assert set(BY_NAME) - theirs == {
        "allow-unsupported",
        "decisions",
        "pod-group-apis",
        "record",
        "serve-without-authorization",
        "authentication-token-audiences",
    }


def test_every_flag_means_something_or_says_why_not() -> None:
    """A flag is a field of the options, or has a reason; never both, never neither."""
    fields = set(RunOptions.__struct_fields__)

    for flag in BY_NAME.values():
        assert (flag.field in fields) == (not flag.no_effect), flag.name


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        pytest.param(["--leader-elect=false"], "leader_elect", False, id="switch with a value"),
        pytest.param(["--leader-elect"], "leader_elect", True, id="switch alone"),
        pytest.param(["--leader_elect=f"], "leader_elect", False, id="underscores and short form"),
        pytest.param(["-v=4"], "v", 4, id="pflag's short form"),
        pytest.param(["-v", "4"], "v", 4, id="short form with a space"),
        pytest.param(["--v=4"], "v", 4, id="long form of -v"),
        pytest.param(["-v2", "-v5"], "v", 5, id="the last one counts"),
        pytest.param(
            ["--leader-elect-lease-duration=1m"],
            "leader_elect_lease_duration",
            60.0,
            id="duration",
        ),
        pytest.param(
            ["--authorization-always-allow-paths=/healthz,/metrics"],
            "authorization_always_allow_paths",
            ("/healthz", "/metrics"),
            id="a list replaces the default",
        ),
        pytest.param(
            ["--requestheader-allowed-names=a,b", "--requestheader-allowed-names", "c"],
            "requestheader_allowed_names",
            ("a", "b", "c"),
            id="lists add up",
        ),
        pytest.param(
            ["--pod-group-apis=scheduling.volcano.sh", "--pod-group-apis=scheduling.x-k8s.io"],
            "pod_group_apis",
            ("scheduling.volcano.sh", "scheduling.x-k8s.io"),
            id="APIs of others",
        ),
        pytest.param(["--bind-address=::"], "bind_address", "::", id="IPv6 address"),
        pytest.param(["--secure-port=0x2813"], "secure_port", 10259, id="hexadecimal"),
        pytest.param(["--v=010"], "v", 8, id="octal"),
        pytest.param(
            ["--feature-gates= kube : NodeSwap = true "],
            "feature_gates",
            ("NodeSwap=true",),
            id="spaces in gates",
        ),
    ],
)
def test_flags_are_read_as_pflag_reads_them(
    arguments: list[str], field: str, value: object
) -> None:
    """Each spelling that kube-scheduler takes is taken."""
    assert getattr(_understood(*arguments), field) == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--secure-port=70000"], 'from 0 to 65535, got "70000"', id="port"),
        pytest.param(["--secure-port=٣"], 'from 0 to 65535, got "٣"', id="digits of others"),
        pytest.param(["--secure-port= 5"], 'from 0 to 65535, got " 5"', id="a space"),
        pytest.param(
            ["--feature-gates=cube:NodeSwap=true"], 'got "cube:NodeSwap=true"', id="component"
        ),
        pytest.param(["--leader-elect=maybe"], 'true or false, got "maybe"', id="switch"),
        pytest.param(["--leader-elect-lease-duration=5"], 'such as "15s"', id="duration"),
        pytest.param(["--bind-address=localhost"], 'got "localhost"', id="host name"),
        pytest.param(["--logging-format=xml"], 'one of text, json, got "xml"', id="log format"),
        pytest.param(["--tls-min-version=1.2"], "VersionTLS12", id="TLS version"),
        pytest.param(["--kube-api-qps=fast"], 'a number, got "fast"', id="number"),
        pytest.param(["--kube-api-qps=nan"], 'a number, got "nan"', id="no number"),
        pytest.param(["--feature-gates=Mine"], 'Name=false, got "Mine"', id="gate"),
        pytest.param(
            ["--feature-gates=NodeSwap=1,B=x"], 'true or false, got "x"', id="gate's value"
        ),
        pytest.param(
            ["--feature-gates=GangSheduling=true"],
            'no feature gate "GangSheduling"; did you mean "GangScheduling"?',
            id="misspelt gate",
        ),
        pytest.param(
            ["--pod-group-apis=scheduling.k8s.io"],
            'one of scheduling.x-k8s.io, scheduling.volcano.sh, got "scheduling.k8s.io"',
            id="an API that a gate turns on",
        ),
        pytest.param(["--tls-cert-file=x"], "give both or none", id="half a key pair"),
        pytest.param(["--secur-port=1"], "'--secure-port'", id="unknown flag"),
    ],
)
def test_a_bad_flag_is_one_clear_message(arguments: list[str], message: str) -> None:
    """Exit status 2 and no traceback."""
    result = _run(*arguments)

    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert result.output.count("Error:") == 1


def test_flags_without_effect_are_named_once_by_reason() -> None:
    """An existing command line works and its owner learns what is different."""
    options = _understood(
        "--feature-gates=NodeSwap=false",
        "--feature-gates=kube:WorkloadWithJob=true,SchedulerAsyncPreemption=true",
        "--emulated-version=1.35",
        "--vmodule=x=3",
        "--authentication-kubeconfig=/k",
        "--authorization-kubeconfig=/other",
        "--kubeconfig=/k",
    )

    assert [notice.partition(":")[0] for notice in options.notices] == [
        "--vmodule",
        "--emulated-version",
        "--authorization-kubeconfig",
        "--feature-gates=NodeSwap, --feature-gates=WorkloadWithJob",
    ]


def test_the_last_setting_of_a_gate_counts() -> None:
    """Those that have an effect are not named as being without."""
    options = _understood(
        "--feature-gates=StorageCapacityScoring=false",
        "--feature-gates=kube:StorageCapacityScoring=1",
    )

    assert turned_on(options.feature_gates) == {STORAGE_CAPACITY_SCORING}
    assert options.notices == ()
    assert turned_on((*options.feature_gates, f"{STORAGE_CAPACITY_SCORING}=false")) == frozenset()


def test_help_shows_what_has_an_effect_and_lists_the_rest() -> None:
    """Own options, then groups; defaults are told."""
    text = " ".join(_run("--help").output.split())

    assert "--seed INTEGER" in text
    assert "Leader election" in text
    assert "[default: 10259]" in text
    assert "[default: 5m0s]" in text
    assert text.index("Accepted without effect") < text.index("--emulated-version")


def test_without_a_file_the_deprecated_flags_count() -> None:
    """They are the only way to say these things then."""
    options = options_from_flags(
        [
            ("kubeconfig", "/k"),
            ("kube-api-qps", "20"),
            ("kube-api-burst", "40"),
            ("profiling", "false"),
            ("leader-elect", "false"),
        ]
    )

    config, notices = effective_configuration(options)

    connection = config.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("/k", 20.0, 40)
    assert (config.enable_profiling, config.leader_election.leader_elect) == (False, False)
    assert notices == ()


def test_with_a_file_only_leader_election_flags_count(tmp_path: Path) -> None:
    """The others are named in a notice."""
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    options = options_from_flags(
        [
            ("config", str(path)),
            ("kubeconfig", "/from/file"),
            ("kube-api-qps", "20"),
            ("leader-elect-resource-name", "theirs"),
        ]
    )

    config, notices = effective_configuration(options)

    assert config.client_connection.kubeconfig == "/from/file"
    assert config.leader_election.lease_duration_seconds == 30.0
    assert config.leader_election.resource_name == "theirs"
    assert notices == ("--kube-api-qps: ignored because --config is given; the file says it",)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        pytest.param(FILE, 'got "/from/file"', id="another one"),
        pytest.param(FILE.replace("/from/file", '""'), "got nothing", id="none"),
    ],
)
def test_file_and_flag_must_name_one_cluster(tmp_path: Path, text: str, got: str) -> None:
    """One message that says what to do, and no guess."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    options = options_from_flags([("config", str(path)), ("kubeconfig", "/k")])

    with pytest.raises(ConfigError) as caught:
        effective_configuration(options)

    assert str(caught.value) == (
        f'{path}: clientConnection.kubeconfig: expected "/k" as in --kubeconfig, {got}; with '
        "--config the file says which cluster: write it there, or leave the flag out"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(
            [("leader-elect-lease-duration", "5s")],
            "command line: leaderElection.leaseDuration: leaseDuration must be more than",
            id="flags contradict the defaults",
        ),
        pytest.param(
            [("config", "/no/such/file.yaml")],
            "/no/such/file.yaml: cannot be read: no such file or directory",
            id="no file",
        ),
        pytest.param([("config", "/")], "/: cannot be read: is a directory", id="a folder"),
        pytest.param(
            [("leader-elect-resource-name", "")],
            "command line: leaderElection.resourceName: required: a name",
            id="an empty name of the lease",
        ),
        pytest.param(
            [("leader-elect-resource-namespace", "")],
            "command line: leaderElection.resourceNamespace: required: a name",
            id="an empty namespace of the lease",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error(flags: list[tuple[str, str]], message: str) -> None:
    """The message names the place that said it."""
    with pytest.raises(ConfigError) as caught:
        effective_configuration(options_from_flags(flags))

    assert str(caught.value).startswith(message)


def test_flag_values_outside_click_are_checked_too() -> None:
    """`options_from_flags` names the flag."""
    with pytest.raises(FlagError, match="--secure-port: expected a whole number"):
        options_from_flags([("secure-port", "x")])
