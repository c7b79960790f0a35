"""Reads `extraArgs`; refuses flags that contradict the objects of the instance.

The chart's checks.yaml refuses the same flags, and flags for which only the chart has values.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from scheduler.config.flags import BY_NAME

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "authentication-token-audiences": "set serving.tokenAudiences",
        "config": "set configuration and profiles",
        "leader-elect-resource-name": "the Lease has the name of the Scheduler",
        "leader-elect-resource-namespace": "the Lease is in the namespace of the Scheduler",
        "record": "set recordings.volume",
        "secure-port": "probes and Service have the port 10259",
        "tls-cert-file": "set serving.secretName",
        "tls-private-key-file": "set serving.secretName",
        "write-config-to": "the daemon would write the file and exit",
    }
)
"""Flags that the Deployment sets or needs, with the field to use instead or the reason."""

_FILES: Final = ("cert-dir", "client-ca-file", "kubeconfig", "requestheader-client-ca-file")
"""Flags that name a file or a folder; the daemon ends at its start if it is not there."""


def read(
    texts: Sequence[str], mounted: tuple[str, ...]
) -> tuple[list[tuple[str, str]], list[tuple[int, str]]]:
    """Return the flags with their values, and the problems by their index in the list.

    `mounted` has the directories of the files that a flag may name.
    """
    given: list[tuple[str, str]] = []
    problems: list[tuple[int, str]] = []
    for i, text in enumerate(texts):
        name, equals, value = text.removeprefix("-").removeprefix("-").partition("=")
        flag = BY_NAME.get(name)
        if flag is None or not text.startswith("-") or not (equals or flag.is_bool):
            problems.append((i, f'expected --FLAG=VALUE, got "{text}"'))
        elif name in REFUSED:
            problems.append((i, f"--{name} is refused: {REFUSED[name]}"))
        elif name in _FILES and value and not value.startswith(mounted):
            problems.append((i, f"--{name}: the daemon's pods have no file {value}"))
        elif name == "bind-address" and _is_loopback(value):
            problems.append((i, f"--{name}={value} is refused: probes come from the node"))
        else:
            given.append((name, value if equals else "true"))
    return given, problems


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False
