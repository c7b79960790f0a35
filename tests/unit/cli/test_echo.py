"""No command lets a terminal obey what tenants write into their objects."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scheduler.observability.visible import visible
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.main import main
from tests.support.manifests import Manifest, node_manifest, pod_manifest, write_list

FORGED = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e"


def forged_pod(name: str, **spec: object) -> Manifest:
    """A pod with escape sequences in all texts about which no input check complains."""
    pod = pod_manifest(name + FORGED, namespace="ns" + FORGED, **spec)
    pod["metadata"]["annotations"] = {
        "stowage.dev/expected-end": FORGED,
        "stowage.dev/expected-duration": FORGED,
    }
    pod["metadata"]["labels"] = {"app": FORGED}
    pod["metadata"]["ownerReferences"] = [
        {"kind": "Job", "name": FORGED, "uid": FORGED, "controller": True}
    ]
    return pod


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Pods that fit, wait, are gated, are of no scheduler, and run, on a node of strange names."""
    taint = {"key": "gpu" + FORGED, "value": FORGED, "effect": "NoSchedule"}
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": FORGED}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "claim" + FORGED}}
    return write_list(
        tmp_path / "cluster.json",
        node_manifest("n" + FORGED, labels={"disk": FORGED}),
        node_manifest("t" + FORGED, taints=[taint]),
        forged_pod("running", nodeName="n" + FORGED, affinity=apart),
        forged_pod("fits"),
        forged_pod("big", requests={"cpu": "40", "example.com/gpu" + FORGED: "1"}),
        forged_pod("apart", affinity=apart),
        forged_pod("picky", nodeSelector={"disk": "ssd" + FORGED, "rack" + FORGED: FORGED}),
        forged_pod("mounts", volumes=[volume]),
        forged_pod("gated", schedulingGates=[{"name": FORGED}]),
        forged_pod("theirs", schedulerName=FORGED),
        {"kind": "Thing" + FORGED, "apiVersion": "v1", "metadata": {"name": FORGED}},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain",),
        ("explain", "--all-reasons", "--preempt"),
        ("explain", f"ns{FORGED}/running{FORGED}"),
        ("explain", f"no{FORGED}"),
        ("simulate",),
        ("what-if", "--drain", f"n{FORGED}"),
        ("what-if", "--delete", f"pod/ns{FORGED}/running{FORGED}"),
        ("what-if", "--remove-taint", FORGED),
        ("capacity", "--like", f"ns{FORGED}/fits{FORGED}"),
        ("capacity", "--like", f"ns{FORGED}/big{FORGED}"),
        ("capacity", "--like", f"no{FORGED}"),
    ],
    ids=lambda each: visible(" ".join(each)),
)
def test_escape_sequences_of_tenants_are_shown(cluster: str, arguments: tuple[str, ...]) -> None:
    """Whatever text it is, and wherever the text is printed."""
    command, *others = arguments

    result = CliRunner().invoke(main, [command, "-f", cluster, *others])

    for text in (result.stdout, result.stderr):
        assert visible(text) == text
    assert visible(FORGED) in result.output


def test_styles_are_those_of_the_command() -> None:
    """They are around the text, whose own sequences are escaped."""

    @click.command
    def styled() -> None:
        echo("a\x1b[1mb", color="red")

    result = CliRunner().invoke(styled, color=True)

    assert result.output == "\x1b[31ma\\u001b[1mb\x1b[0m\n"
