"""Reads a cluster from its API server, for commands that read it once; writes nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from scheduler.api.objects import Node
from scheduler.api.pods import PodInfo
from scheduler.clock import SystemClock
from scheduler.daemon.client import event_loop
from scheduler.daemon.client.connection import load_connection, load_connection_to
from scheduler.daemon.client.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    TooLargeError,
    UnauthorizedError,
)
from scheduler.daemon.client.session import ApiSession
from scheduler.daemon.informers.kinds import NAMESPACES, NODES, PODS, Kind, watched_kind
from scheduler.daemon.informers.listing import check_list, list_all
from scheduler.errors import SchedulerError
from scheduler.kernel.framework.events import ObjectKind
from scheduler.tools.offline.admission import KINDS, Admission
from scheduler.tools.offline.reading import ClusterObjects
from scheduler.tools.offline.strictness import missing_nodes

_RECORDING: Final = "/debug/recording"
_DAEMON_SECONDS: Final = 120.0
_NOT_TRUSTED: Final = (
    "; give --certificate-authority FILE, or --insecure-skip-tls-verify where you trust the way"
)
_ANONYMOUS: Final = "system:anonymous"
_NOT_KNOWN: Final = (
    "; it takes a client certificate only with --client-ca-file: use a kubeconfig with a token"
)


class LiveError(SchedulerError):
    """The cluster cannot be read; the message has the reason."""


class ClusterAddress(msgspec.Struct, frozen=True):
    """A kubeconfig and its context; each empty for the default."""

    kubeconfig: str = ""
    context: str = ""


class DaemonAddress(msgspec.Struct, frozen=True):
    """The URL of a daemon's secure port, and the trust in its certificate.

    Attributes:
        url: as in https://localhost:10259.
        certificate_authority: file with the authorities that must have issued its certificate; None
            for those of the system.
        insecure_skip_tls_verify: whether any certificate is accepted.
    """

    url: str
    certificate_authority: str | None = None
    insecure_skip_tls_verify: bool = False


def read_cluster(
    place: ClusterAddress, kinds: Iterable[ObjectKind], *, keeps_written: bool = False
) -> ClusterObjects:
    """Read the nodes, pods and namespaces of a cluster, and the kinds that plugins watch.

    With `keeps_written` pods and nodes are also kept with all their fields, for extenders.

    Raises:
        SchedulerError: the connection settings are wrong, a right is missing, or there is no
            answer.
    """
    return event_loop.run(_read(place, tuple(kinds), keeps_written=keeps_written))


def read_daemon(place: ClusterAddress, daemon: DaemonAddress) -> bytes:
    """Fetch the flight recording of a daemon: its state and its recent decisions.

    The request carries the credentials of the kubeconfig that `place` names.

    Raises:
        SchedulerError: the connection settings are wrong, a right is missing, or there is no
            answer.
    """
    return event_loop.run(_read_daemon(place, daemon))


def read_admission(place: ClusterAddress) -> tuple[Admission, tuple[str, ...]]:
    """Read the defaults of a cluster's admission, and list the kinds that cannot be read.

    Raises:
        SchedulerError: the connection settings are wrong, or there is no answer.
    """
    return event_loop.run(_read_admission(place))


def check_lists(place: ClusterAddress) -> None:
    """Check that pods and nodes can be listed, for a command that then watches them.

    Raises:
        SchedulerError: as `read_cluster`.
    """
    event_loop.run(_check_lists(place))


@asynccontextmanager
async def _session(place: ClusterAddress) -> AsyncIterator[tuple[ApiSession, str]]:
    """Open a session with a cluster; yield it with the server's name in messages."""
    clock = SystemClock()
    connection = await load_connection(
        kubeconfig=place.kubeconfig, context=place.context, clock=clock
    )
    async with ApiSession(connection, clock=clock) as session:
        yield session, connection.access.server


async def _check_lists(place: ClusterAddress) -> None:
    refused: dict[str, BaseException] = {}
    async with _session(place) as (session, server):
        for kind in (PODS, NODES):
            try:
                await check_list(session, kind)
            except ApiError as problem:
                refused[_called(kind)] = problem
    if refused:
        raise LiveError(_refusal(server, refused))


async def _read_admission(place: ClusterAddress) -> tuple[Admission, tuple[str, ...]]:
    admission = Admission()
    kinds = [Kind[dict[str, Any]](kind.plural, kind, dict[str, Any]) for kind in KINDS.values()]
    async with _session(place) as (session, server):
        lists = [list_all(session, kind) for kind in kinds]
        answers = await asyncio.gather(*lists, return_exceptions=True)
    problems: list[str] = []
    for kind, answer in zip(kinds, answers, strict=True):
        if isinstance(answer, ForbiddenError):
            problems.append(f"{_called(kind)} may not be listed; pods are completed without them")
        elif isinstance(answer, NotFoundError):
            continue  # The server does not serve the kind, so admission has no defaults from it.
        elif isinstance(answer, BaseException):
            raise LiveError(_refusal(server, {_called(kind): answer}))
        else:
            for raw in answer[0]:
                admission.take(kind.declared.kind, raw)
    return admission, tuple(problems)


async def _read_daemon(place: ClusterAddress, daemon: DaemonAddress) -> bytes:
    clock = SystemClock()
    connection = await load_connection_to(
        daemon.url,
        kubeconfig=place.kubeconfig,
        context=place.context,
        ca=daemon.certificate_authority,
        is_verified=not daemon.insecure_skip_tls_verify,
        clock=clock,
    )
    async with ApiSession(connection, clock=clock) as session:
        try:
            answer = await session.request("GET", _RECORDING, timeout=_DAEMON_SECONDS)
        except ForbiddenError as problem:
            raise LiveError(
                f"{daemon.url} does not let you read {_RECORDING}: {problem.message}"
                f"{_NOT_KNOWN if _ANONYMOUS in problem.message else ''}"
            ) from problem
        except UnauthorizedError as problem:
            raise LiveError(f"{daemon.url} does not know who you are") from problem
        except TooLargeError as problem:
            raise LiveError(
                f"{daemon.url} has kept more than can be asked about this way ({problem.message}): "
                f"fetch {_RECORDING} into a file, with curl, and name that with --recording"
            ) from problem
        except ApiError as problem:
            message = problem.message or problem.reason or problem.status
            hint = _NOT_TRUSTED if "certificate" in str(message).lower() else ""
            raise LiveError(f"{daemon.url} gives no {_RECORDING}: {message}{hint}") from problem
    return answer.body


async def _read(
    place: ClusterAddress, watched: tuple[ObjectKind, ...], *, keeps_written: bool
) -> ClusterObjects:
    objects = ClusterObjects()
    pods_kind, nodes_kind = _keeping(objects) if keeps_written else (PODS, NODES)
    kinds: list[Kind[Any]] = [pods_kind, nodes_kind, NAMESPACES, *map(watched_kind, watched)]
    async with _session(place) as (session, server):
        lists = [list_all(session, kind) for kind in kinds]
        answers = await asyncio.gather(*lists, return_exceptions=True)
    refused: dict[str, BaseException] = {}
    found: list[list[Any]] = []
    for kind, answer in zip(kinds, answers, strict=True):
        if isinstance(answer, BaseException):
            refused[_called(kind)] = answer
        else:
            found.append(answer[0])
            objects.warnings.extend(answer[1])
    if refused:
        raise LiveError(_refusal(server, refused))
    pods, nodes, namespaces, *others = found
    objects.pods = sorted(pods, key=lambda pod: (pod.namespace, pod.name))
    objects.nodes = sorted(nodes, key=lambda node: str(node.metadata.name))
    objects.namespaces = namespaces
    for declared, items in zip(watched, others, strict=True):
        objects.watched.extend((declared, item) for item in items)
    objects.warnings.extend(missing_nodes(objects.nodes, objects.pods))
    return objects


def _keeping(objects: ClusterObjects) -> tuple[Kind[PodInfo], Kind[Node]]:
    """Return the kinds of pods and nodes that also keep the bytes of objects."""
    pods, nodes = objects.written_pods, objects.written_nodes
    return (
        PODS.keeping(lambda pod, written: pods.update({pod.uid: written})),
        NODES.keeping(lambda node, written: nodes.update({node.metadata.name: written})),
    )


def _called(kind: Kind[Any]) -> str:
    """Return the name of a kind in RBAC: `replicasets.apps`."""
    declared = kind.declared
    # The name of a kind that only plugins know contains the group.
    return kind.name if declared.plural or not declared.group else f"{kind.name}.{declared.group}"


def _refusal(server: str, refused: dict[str, BaseException]) -> str:
    """Build one message from all problems."""
    [(name, first), *_] = refused.items()
    forbidden = [name for name, problem in refused.items() if isinstance(problem, ForbiddenError)]
    if forbidden:
        told = next(p for p in refused.values() if isinstance(p, ForbiddenError))
        return (
            f"{server} does not let you list {', '.join(forbidden)}, which decisions depend on: "
            f"{told.message}"
        )
    if isinstance(first, UnauthorizedError):
        return f"{server} does not know who you are: {first.message or 'Unauthorized'}"
    if not isinstance(first, ApiError):
        raise first
    if first.status == 0:
        return f"{server} cannot be reached: {first.message}"
    return f"{server} does not list {name}: {first.message or first.reason or first.status}"
