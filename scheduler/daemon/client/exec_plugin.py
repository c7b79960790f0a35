"""Runs exec credential plugins: programs of others that print credentials, and may hang.

Source: k8s.io/client-go plugin/pkg/client/auth/exec v0.36; KEP-541.
Differs: never interactive; a plugin that takes too long is killed with its child processes.
"""
# The package ships type hints for its API, but none for its configuration loaders.
# mypy: disable-error-code="no-untyped-call"

import asyncio
import base64
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.exec_provider import ExecProvider

from scheduler.daemon.client.errors import ConnectionConfigError, cut
from scheduler.daemon.client.wire import UNREADABLE

EXEC_TIMEOUT_SECONDS: Final = 60.0
_MAX_OUTPUT_BYTES: Final = 2**20
_LAST_WORDS_SECONDS: Final = 1.0
_KINDS_OF_ANSWER: Final = ("apiVersion", "kind", "status")
_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster that is for exec plugins."""
_TOLD_FIELDS: Final = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "proxy-url",
    "disable-compression",
)
"""Fields that a cluster has under the same name in a kubeconfig and in an ExecCredential."""


async def run_plugin(
    exec_section: Any,
    timeout: float = EXEC_TIMEOUT_SECONDS,
    *,
    cluster: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the exec plugin of a kubeconfig's user, and return the `status` that it prints.

    Args:
        exec_section: the field `exec` of the user.
        timeout: in seconds.
        cluster: what the plugin gets to know of the cluster; see `cluster_for_plugins`.

    Raises:
        ConnectionConfigError: the plugin failed; the message is one line.
    """
    command = exec_section.safe_get("command") or ""
    try:
        provider = ExecProvider(exec_section)
        provider.env["KUBERNETES_EXEC_INFO"] = _told(provider, cluster)
        async with asyncio.timeout(timeout):
            exit_code, stdout, stderr = await _run(provider)
        return _status(provider, exit_code, stdout, stderr)
    except TimeoutError as problem:
        raise ConnectionConfigError(
            f"exec plugin {command}: no answer within {timeout:.0f} s"
        ) from problem
    except OSError as problem:
        raise ConnectionConfigError(
            f"exec plugin {command}: cannot be run: {problem.strerror or problem}"
        ) from problem
    except (ConfigException, ValueError) as problem:
        told = " ".join(str(problem).split()).removeprefix("exec: ")
        raise ConnectionConfigError(cut(f"exec plugin {command}: {told}")) from problem


def _told(provider: ExecProvider, cluster: Mapping[str, Any] | None) -> str:
    """Return the ExecCredential that a plugin reads from its environment."""
    spec: dict[str, Any] = {"interactive": False}
    if cluster is not None:
        spec["cluster"] = cluster
    told = {"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": spec}
    return json.dumps(told)


def cluster_for_plugins(section: Mapping[str, Any], authority: bytes | None) -> dict[str, Any]:
    """Return the cluster for a plugin with `provideClusterInfo`.

    Args:
        section: the fields of the cluster in the kubeconfig.
        authority: the PEM certificates of its authority.

    Source: client-go rest/exec.go (ConfigToExecCluster) v0.36.
    """
    told = {field: section[field] for field in _TOLD_FIELDS if section.get(field)}
    if authority:
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in section.get("extensions") or ():
        if extension["name"] == _EXTENSION:
            told["config"] = extension["extension"]
    return told


async def _run(provider: ExecProvider) -> tuple[int, bytes, bytes]:
    """Run the plugin; return exit code, standard output and error. Kill it if cancelled."""
    process = await _started(provider)
    try:
        async with asyncio.TaskGroup() as group:
            output = group.create_task(_read(process.stdout))
            errors = group.create_task(_read(process.stderr))
        return await process.wait(), output.result(), errors.result()
    except ExceptionGroup as problems:
        # Not `except*`: before Python 3.11.4 an error raised in its body becomes a group.
        raise ValueError(str(problems.exceptions[0])) from problems
    finally:
        await _end(process)


async def _started(provider: ExecProvider) -> asyncio.subprocess.Process:
    """Start the plugin; kill it if cancelled meanwhile."""
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *provider.args,
            env=provider.env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A process group of its own, so that `_end` kills its children too.
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The plugin may run already and have children.
        with suppress(OSError):
            await _end(await starting)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a plugin with its process group, and close its pipes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        # A child that left the process group may keep the pipes open.
        async with asyncio.timeout(_LAST_WORDS_SECONDS):
            await process.communicate()


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None  # noqa: S101 - a pipe was asked for
    output = bytearray()
    while chunk := await stream.read(_MAX_OUTPUT_BYTES):
        output += chunk
        if len(output) > _MAX_OUTPUT_BYTES:
            raise ValueError(f"it wrote more than {_MAX_OUTPUT_BYTES} bytes")
    return bytes(output)


def _status(provider: ExecProvider, exit_code: int, stdout: bytes, stderr: bytes) -> dict[str, Any]:
    if exit_code != 0:
        told = stderr.decode(errors="replace").strip()
        raise ValueError(f"process returned {exit_code}" + (f". {told}" if told else ""))
    try:
        answer = msgspec.json.decode(stdout, type=dict[str, Any])
    except UNREADABLE as problem:
        raise ValueError(f"failed to decode process output: {problem}") from problem
    for key in _KINDS_OF_ANSWER:
        if key not in answer:
            raise ValueError(f"malformed response. missing key '{key}'")
    if answer["apiVersion"] != provider.api_version:
        raise ValueError(
            f"plugin api version {answer['apiVersion']} does not match {provider.api_version}"
        )
    return _mapping(answer["status"])


def _mapping(status: Any) -> dict[str, Any]:
    try:
        return msgspec.convert(status, dict[str, Any])
    except msgspec.ValidationError as problem:
        raise ValueError(f"malformed response. status: {problem}") from problem
