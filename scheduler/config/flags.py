"""kube-scheduler's command line as a table: each flag, its meaning in Stowage, and its parser.

The table has every flag of kube-scheduler 1.36, so that an existing command line works. A flag with
`no_effect` is parsed, checked and named in a notice.

Source: `kube-scheduler --help`, 1.36.3.
"""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, Final, NamedTuple

from scheduler.config.duration import EXPECTED as DURATION_EXPECTED, parse_duration
from scheduler.config.feature_gates import DEFAULTS, SWITCHES, gates_without_effect
from scheduler.config.options import RunOptions
from scheduler.config.source import whole_number
from scheduler.config.walker import did_you_mean


class FlagError(ValueError):
    """A flag's value cannot be used; the text names the expected value."""


def _text(text: str) -> str:
    return text


def _bool(text: str) -> bool:
    """Source: Go strconv.ParseBool."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise FlagError(f'expected true or false, got "{text}"')


def _int(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = whole_number(text)
        if value is None or not least <= value <= most:
            raise FlagError(f'expected a whole number from {least} to {most}, got "{text}"')
        return value

    return parse


def _number(text: str) -> float:
    with suppress(ValueError):
        if isfinite(value := float(text)):
            return value
    raise FlagError(f'expected a number, got "{text}"')


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None:
        raise FlagError(f'expected {DURATION_EXPECTED}, got "{text}"')
    return seconds


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise FlagError(f'expected an IP address such as 0.0.0.0 or ::, got "{text}"') from None
    return text


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise FlagError(f'expected one of {", ".join(choices)}, got "{text}"')
        return text

    return parse


def parse_feature_gates(text: str) -> tuple[str, ...]:
    """Parse settings of feature gates; return `Name=true` or `Name=false`, without a component.

    Raises:
        FlagError: a setting has another form, or kube-scheduler 1.36 has no such gate or component.
    """
    settings = []
    for gate in _list(text):
        component, colon, setting = gate.rpartition(":")
        name, equals, value = map(str.strip, setting.partition("="))
        if not (name and equals) or (colon and component.strip() != "kube"):
            raise FlagError(f'expected Name=true or Name=false, got "{gate}"')
        is_on = _bool(value)
        if name not in DEFAULTS:
            guess = did_you_mean(name, DEFAULTS)
            raise FlagError(f'kube-scheduler 1.36 has no feature gate "{name}"{guess}')
        settings.append(f"{name}={str(is_on).lower()}")
    return tuple(settings)


POD_GROUP_APIS: Final = ("scheduling.x-k8s.io", "scheduling.volcano.sh")
"""Foreign API groups whose PodGroups can be read: those of scheduler-plugins and Volcano."""


def parse_pod_group_apis(text: str) -> tuple[str, ...]:
    """Parse the names of foreign API groups whose PodGroups are read.

    Raises:
        FlagError: an API group is unknown.
    """
    parse = _choice(*POD_GROUP_APIS)
    return tuple(dict.fromkeys(map(parse, _list(text))))


TLS_VERSIONS: Final = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")

_INT32_MAX: Final = 2**31 - 1
_PORT_MAX: Final = 65535


class Flag(NamedTuple):
    """One flag of the table."""

    name: str
    help: str
    parse: Callable[[str], object] = _text
    metavar: str = "TEXT"
    no_effect: str = ""
    """The reason why the flag has no effect here; empty if it has one."""

    @property
    def field(self) -> str:
        """The field of `RunOptions`."""
        return self.name.replace("-", "_")

    @property
    def is_bool(self) -> bool:
        """Whether the flag may stand without a value."""
        return self.parse is _bool

    @property
    def is_list(self) -> bool:
        """Whether the flag may be given several times."""
        return self.parse in (_list, parse_feature_gates, parse_pod_group_apis)


def _path(name: str, text: str, no_effect: str = "") -> Flag:
    return Flag(name, text, _text, "FILE", no_effect)


def _time(name: str, text: str, no_effect: str = "") -> Flag:
    return Flag(name, text, _duration, "DURATION", no_effect)


def _switch(name: str, text: str, no_effect: str = "") -> Flag:
    return Flag(name, text, _bool, "[true|false]", no_effect)


def _names(name: str, text: str, no_effect: str = "") -> Flag:
    return Flag(name, text, _list, "A,B,...", no_effect)


_NO_HTTP2: Final = "HTTP/2 is not served"
_NO_GATES: Final = (
    "this version behaves like kube-scheduler 1.36 with its default feature gates, but for "
    + ", ".join(sorted(SWITCHES))
)
_NOT_OF_SCHEDULING: Final = "these feature gates belong to other components"
_NO_METRIC_CONTROL: Final = "every metric is served as it is"
_NO_LOG_CONTROL: Final = "logs go unbuffered to standard error"
_OWN_CONNECTION: Final = "reviews are asked for over the scheduler's own connection"
_NO_LOOKUP: Final = "nothing is looked up in the cluster; use --client-ca-file"

FLAGS: Final[Mapping[str, Sequence[Flag]]] = {
    "Configuration": (
        _path(
            "config",
            "KubeSchedulerConfiguration (v1) to use; defaults without it. Changes of the file are "
            "taken over.",
        ),
        _switch(
            "allow-unsupported",
            "Go on without what the configuration asks for and this version does not do (not in "
            "kube-scheduler).",
        ),
        _path("write-config-to", "Write the effective configuration to this file and exit."),
        _path(
            "kubeconfig",
            "How to reach the cluster; without it and without --config the service account of the "
            "pod. With --config the file says it.",
        ),
        Flag("master", "Address of the API server; wins over the kubeconfig.", _text, "URL"),
        Flag(
            "kube-api-qps",
            "Requests per second to the API server; not limited by default. Ignored with --config.",
            _number,
            "NUMBER",
        ),
        Flag(
            "kube-api-burst",
            "Requests that may exceed --kube-api-qps for a moment. Ignored with --config.",
            _int(-_INT32_MAX - 1, _INT32_MAX),
            "NUMBER",
        ),
        Flag(
            "kube-api-content-type",
            "Content type of requests.",
            no_effect="requests are JSON",
        ),
        _time(
            "pod-max-in-unschedulable-pods-duration",
            "How long a pod that fits nowhere waits before it is tried again without a reason.",
        ),
    ),
    "Leader election (each wins over the configuration file)": (
        _switch("leader-elect", "Schedule only while holding the Lease."),
        _time("leader-elect-lease-duration", "How long a leader may be silent."),
        _time("leader-elect-renew-deadline", "How long a leader tries to renew before it stops."),
        _time("leader-elect-retry-period", "Time between attempts."),
        Flag("leader-elect-resource-lock", "Kind of lock; only leases.", _text, "KIND"),
        Flag("leader-elect-resource-name", "Name of the Lease.", _text, "NAME"),
        Flag("leader-elect-resource-namespace", "Namespace of the Lease.", _text, "NAMESPACE"),
    ),
    "Serving": (
        Flag(
            "secure-port",
            "Port of health, metrics and debug endpoints; 0 switches them off.",
            _int(0, _PORT_MAX),
            "PORT",
        ),
        Flag("bind-address", "Address to listen on.", _address, "IP"),
        _switch("permit-port-sharing", "Let several processes listen on the port."),
        _switch(
            "permit-address-sharing",
            "Listen although old connections linger.",
            "SO_REUSEADDR is always set, as Go does",
        ),
        _path("tls-cert-file", "Certificate chain; one is made up in memory without it."),
        _path("tls-private-key-file", "Private key of --tls-cert-file."),
        Flag(
            "cert-dir",
            "Folder with kube-scheduler.crt and kube-scheduler.key, used without --tls-cert-file; "
            "a self-signed pair is written there when they are missing.",
            _text,
            "FOLDER",
        ),
        Flag("tls-min-version", "Oldest TLS version.", _choice(*TLS_VERSIONS), "VERSION"),
        _names("tls-cipher-suites", "Cipher suites for TLS 1.2, by their IANA names."),
        _switch(
            "serve-without-authorization",
            "Serve every endpoint without authorization (not in kube-scheduler).",
        ),
        _switch(
            "profiling",
            "Let the log level be changed at /debug/flags/v. Ignored with --config.",
        ),
        _switch("contention-profiling", "Block profiles.", "there are no block profiles in Python"),
        _switch("disable-http2-serving", "Serve HTTP/1.1 only.", _NO_HTTP2),
        Flag(
            "http2-max-streams-per-connection",
            "Streams per connection.",
            _int(0, _INT32_MAX),
            "NUMBER",
            _NO_HTTP2,
        ),
        _names("tls-curve-preferences", "Key exchange curves.", "OpenSSL's choice is used"),
        Flag(
            "tls-sni-cert-key",
            "Certificate and key for some host names.",
            _text,
            "CERT,KEY[:HOST,...]",
            "one certificate is served to all host names; use --tls-cert-file",
        ),
    ),
    "Authentication and authorization": (
        _path("client-ca-file", "Accept client certificates signed by these authorities."),
        _names(
            "authentication-token-audiences",
            "Audiences of which a caller's token must name one; the API server's own when empty "
            "(not in kube-scheduler).",
        ),
        _time("authentication-token-webhook-cache-ttl", "How long a TokenReview counts."),
        _path(
            "requestheader-client-ca-file",
            "Accept user names in headers from proxies with a certificate signed by these.",
        ),
        _names("requestheader-allowed-names", "Common names such a proxy may have; any if empty."),
        _names("requestheader-username-headers", "Headers that carry the user's name."),
        _names("requestheader-group-headers", "Headers that carry the user's groups."),
        _names("authorization-always-allow-paths", "Paths without authorization; may end with *."),
        _time("authorization-webhook-cache-authorized-ttl", "How long a yes counts."),
        _time("authorization-webhook-cache-unauthorized-ttl", "How long a no counts."),
        _path("authentication-kubeconfig", "Where TokenReviews go.", _OWN_CONNECTION),
        _path("authorization-kubeconfig", "Where SubjectAccessReviews go.", _OWN_CONNECTION),
        _switch("authentication-skip-lookup", "Look nothing up.", _NO_LOOKUP),
        _switch("authentication-tolerate-lookup-failure", "Go on without.", _NO_LOOKUP),
        _names("requestheader-extra-headers-prefix", "Extra headers.", "extra is not passed on"),
        _names("requestheader-uid-headers", "Headers with the UID.", "the UID is not passed on"),
    ),
    "Logs": (
        Flag("v", "How much is logged, 0 to 10.", _int(-_INT32_MAX - 1, _INT32_MAX), "LEVEL"),
        Flag("logging-format", "text or json.", _choice("text", "json"), "FORMAT"),
        Flag(
            "record",
            "Record all decisions into this directory, for `stowage replay` (not in "
            "kube-scheduler).",
            _text,
            "DIR",
        ),
        Flag(
            "decisions",
            "Write a line of JSON for every attempt to this file, - for standard output (not in "
            "kube-scheduler).",
            _text,
            "FILE",
        ),
        Flag("vmodule", "Levels by file.", _text, "PATTERN=LEVEL,...", "-v holds everywhere"),
        _time("log-flush-frequency", "Time between flushes.", _NO_LOG_CONTROL),
        Flag("log-json-info-buffer-size", "Buffer.", _text, "SIZE", _NO_LOG_CONTROL),
        _switch("log-json-split-stream", "Two streams.", _NO_LOG_CONTROL),
        Flag("log-text-info-buffer-size", "Buffer.", _text, "SIZE", _NO_LOG_CONTROL),
        _switch("log-text-split-stream", "Two streams.", _NO_LOG_CONTROL),
    ),
    "Features and metrics": (
        Flag(
            "feature-gates",
            f"Turns {', '.join(sorted(SWITCHES))} on. A gate that is asked for and not part of "
            "this version is refused, unless --allow-unsupported is given.",
            parse_feature_gates,
            "NAME=BOOL,...",
        ),
        Flag(
            "pod-group-apis",
            "Also read the PodGroups of these APIs, and the label or annotation by which pods name "
            f"them: {', '.join(POD_GROUP_APIS)} (not in kube-scheduler).",
            parse_pod_group_apis,
            "API,...",
        ),
        _names("emulated-version", "Version to behave like.", _NO_GATES),
        _names("min-compatibility-version", "Oldest version to fit.", _NO_GATES),
        Flag("show-hidden-metrics-for-version", "Old metrics.", no_effect=_NO_METRIC_CONTROL),
        _names("disabled-metrics", "Metrics to leave out.", _NO_METRIC_CONTROL),
        Flag("allow-metric-labels", "Label values.", no_effect=_NO_METRIC_CONTROL),
        _path("allow-metric-labels-manifest", "Label values.", _NO_METRIC_CONTROL),
    ),
}
"""All flags by group, in the order of the help."""

BY_NAME: Final[Mapping[str, Flag]] = {flag.name: flag for group in FLAGS.values() for flag in group}


def options_from_flags(given: Sequence[tuple[str, str]]) -> RunOptions:
    """Parse flags in their written order into options; the last flag of a name counts.

    Raises:
        FlagError: a value cannot be used.
    """
    values: dict[str, object] = {}
    ignored: dict[str, list[str]] = {}
    for name, text in given:
        flag = BY_NAME[name]
        try:
            value = flag.parse(text)
        except FlagError as error:
            raise FlagError(f"--{name}: {error}") from None
        if flag.no_effect:
            ignored.setdefault(flag.no_effect, []).append(f"--{name}")
        elif isinstance(value, tuple) and flag.field in values:
            values[flag.field] = (*_as_tuple(values[flag.field]), *value)
        else:
            values[flag.field] = value
    _drop_own_connection(given, ignored)
    if others := tuple(gates_without_effect(_as_tuple(values.get("feature_gates", ())))):
        ignored[_NOT_OF_SCHEDULING] = [f"--feature-gates={name}" for name in others]
    options = RunOptions(**values, given=tuple(given), notices=_notices(ignored))  # type: ignore[arg-type]  # the table's parsers give each field its type
    if bool(options.tls_cert_file) != bool(options.tls_private_key_file):
        raise FlagError("--tls-cert-file and --tls-private-key-file: give both or none")
    return options


def _as_tuple(value: object) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _drop_own_connection(given: Sequence[tuple[str, str]], ignored: dict[str, list[str]]) -> None:
    """Drop the notice about a kubeconfig for reviews if it is the scheduler's own."""
    last = dict(given)
    names = [
        name
        for name in ("authentication-kubeconfig", "authorization-kubeconfig")
        if name in last and last[name] != last.get("kubeconfig")
    ]
    ignored.pop(_OWN_CONNECTION, None)
    if names:
        ignored[_OWN_CONNECTION] = [f"--{name}" for name in names]


def _notices(ignored: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(
        f"{', '.join(dict.fromkeys(names))}: no effect, {why}" for why, names in ignored.items()
    )
