"""The client of extenders: encodes questions, sends them, and decodes the answers.

Source: kubernetes pkg/scheduler/extender.go (makeTransport, send) v1.36. Differs: redirects are not
followed, and the length of an answer is limited.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, urlsplit

import aiohttp

from scheduler.clock import Clock
from scheduler.config.duration import format_duration
from scheduler.config.problems import Path, Problem
from scheduler.config.types import Extender, ExtenderTlsConfig
from scheduler.daemon.client.direct import JSON, Fence, Request
from scheduler.daemon.client.errors import ConnectionConfigError, FencedError
from scheduler.daemon.client.http_connection import NoAnswerError
from scheduler.daemon.client.proxied import ProxiedRequests
from scheduler.daemon.client.proxies import proxy_for
from scheduler.daemon.client.tls import TlsFiles, load_tls
from scheduler.kernel.engine.instructions import Bind
from scheduler.kernel.extender import Answer, KnownExtender, NoAnswer, Question, Verb
from scheduler.kernel.extender.bodies import binding_args, names_args, nodes_args, preemption_args
from scheduler.kernel.extender.extenders import without_password
from scheduler.kernel.extender.wire import UnreadableAnswerError, read_answer, read_binding
from scheduler.observability.extender_metrics import ExtenderMetrics
from scheduler.observability.logs import get_logger

BIND: Final = "bind"
"""The verb of bindings in metrics; `Verb` lists only the verbs of questions."""

MAX_ANSWER_BYTES: Final = 2**24
"""Bytes at most of an answer, in addition to the size of its request."""
WARNING_BYTES: Final = 2**23
"""The first longer request to an extender is logged."""
TOO_MUCH: Final = "Requests to an extender are large; one that is nodeCacheCapable gets names only"
LARGE_REQUESTS: Final = 4
"""Requests with whole nodes or pods to one extender at a time: each may be tens of megabytes."""

_OK: Final = 200

log = get_logger(__name__)


class WholeObjects(Protocol):
    """Pods and nodes with all their fields, as JSON."""

    def pod(self, uid: str) -> bytes | None:
        """Return the pod with this UID; None if it is not kept."""
        ...

    def node(self, name: str) -> bytes | None:
        """Return the node of this name; None if it is not kept."""
        ...


class ExtenderClient:
    """The client of all extenders of a configuration; see `driver.questions.ExtenderPort`.

    Args:
        extenders: in the order in which they are numbered.
        objects: the pods and nodes to send.
        clock: measures requests.
        fence: returns whether this scheduler holds the lease; called right before a bind is sent.
        metrics: receives the durations of requests.

    Raises:
        ConnectionConfigError: the address or a certificate of an extender cannot be used.
    """

    def __init__(
        self,
        extenders: Sequence[KnownExtender],
        objects: WholeObjects,
        *,
        clock: Clock,
        fence: Fence | None = None,
        metrics: ExtenderMetrics,
    ) -> None:
        self._objects = objects
        self._fence = fence
        self._endpoints = [_ExtenderEndpoint(extender, clock, metrics) for extender in extenders]

    async def close(self) -> None:
        """Close all connections."""
        for endpoint in self._endpoints:
            await endpoint.close()

    async def ask(self, question: Question, uid: str) -> Answer:
        """Send a question about the pod with this UID; return the answer, or the failure."""
        endpoint, verb = self._endpoints[question.extender], question.verb
        by_name = endpoint.extender.config.node_cache_capable
        path = endpoint.extender.verb(verb)
        async with endpoint.turn(is_large=not by_name):
            body = self._body(question, uid, by_name=by_name)
            if body is None:
                return NoAnswer("the pod, or all it was to be asked about, is gone")
            answered = await endpoint.send(
                verb.value, path, Request("POST", f"/{path}", body, JSON)
            )
        if isinstance(answered, NoAnswer):
            return answered
        try:
            return read_answer(verb, answered, by_name=by_name)
        except UnreadableAnswerError as problem:
            return NoAnswer(endpoint.unreadable(path, problem))

    async def bind(self, extender: int, bind: Bind) -> NoAnswer | None:
        """Have the extender of this number bind a pod; return None on success."""
        endpoint = self._endpoints[extender]
        path = endpoint.extender.config.bind_verb
        body = binding_args(bind.namespace, bind.name, bind.uid, bind.node)
        request = Request("POST", f"/{path}", body, JSON, self._fence)
        answered = await endpoint.send(BIND, path, request)
        if isinstance(answered, NoAnswer):
            return answered
        try:
            problem = read_binding(answered)
        except UnreadableAnswerError as unreadable:
            return NoAnswer(endpoint.unreadable(path, unreadable), is_certain=False)
        # Not certain: the extender's own request may have succeeded and its answer been lost.
        return NoAnswer(problem, is_certain=False) if problem else None

    def _body(self, question: Question, uid: str, *, by_name: bool) -> bytes | None:
        """Encode the request body without deleted nodes; None if the pod or all nodes are gone."""
        objects = self._objects
        pod = objects.pod(uid)
        if pod is None:
            return None
        if question.verb is not Verb.PREEMPT:
            if by_name:
                return names_args(pod, question.nodes)
            nodes = [node for name in question.nodes if (node := objects.node(name)) is not None]
            return nodes_args(pod, nodes) if nodes else None
        if by_name:
            return preemption_args(pod, question.candidates, None)
        victims = {
            victim.uid: whole
            for candidate in question.candidates
            for victim in candidate.victims
            if (whole := objects.pod(victim.uid)) is not None
        }
        there = [c for c in question.candidates if all(v.uid in victims for v in c.victims)]
        return preemption_args(pod, there, victims) if there else None


class _ExtenderEndpoint:
    """The client of one extender."""

    def __init__(self, extender: KnownExtender, clock: Clock, metrics: ExtenderMetrics) -> None:
        self.extender = extender
        self._clock = clock
        self._metrics = metrics
        self._is_warned = False
        self._large = asyncio.Semaphore(LARGE_REQUESTS)
        config = extender.config
        self._server = server = config.url_prefix.rstrip("/")
        try:
            url = _checked(config)
            context = _context(config) if url.scheme == "https" else None
        except _UnusableError as problem:
            told = Problem(("extenders", extender.place, *problem.path), problem.message)
            raise ConnectionConfigError(str(told)) from problem
        self._routing: dict[str, Any] = {"proxy": proxy_for(server, os.environ)}
        if context is not None:
            self._routing["ssl"] = context
            if config.tls_config is not None and config.tls_config.server_name:
                self._routing["server_hostname"] = config.tls_config.server_name
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def unreadable(self, verb: str, problem: UnreadableAnswerError) -> str:
        url = self.extender.url(verb)
        return f"answer to {verb} of extender at URL {url} cannot be read: {problem}"

    def turn(self, *, is_large: bool) -> "asyncio.Semaphore | _NoLimit":
        """Return the limit of large requests in memory; the timeout begins after the wait."""
        return self._large if is_large else _NO_LIMIT

    async def send(self, name: str, verb: str, request: Request) -> bytes | NoAnswer:
        size = len(request.body or b"")
        if size > WARNING_BYTES and not self._is_warned:
            self._is_warned = True
            log.warning(TOO_MUCH, extender=self.extender.name, verb=verb, bytes=size)
        start = self._clock.monotonic()
        answered = await self._exchange(verb, request)
        result = "ok"
        if isinstance(answered, NoAnswer):
            result = "late" if answered.is_late else "error"
        seconds = self._clock.monotonic() - start
        self._metrics.request_duration[self.extender.name, name, result].observe(seconds)
        return answered

    async def _exchange(self, verb: str, request: Request) -> bytes | NoAnswer:
        timeout = self.extender.config.http_timeout_seconds
        url = self.extender.url(verb)
        try:
            response = await self._requests(len(request.body or b"")).exchange(request, timeout)
        except NoAnswerError as problem:
            cause = problem.__cause__
            if isinstance(cause, TimeoutError):
                told = f'Post "{url}": no answer within {format_duration(timeout)}'
                return NoAnswer(told, is_late=True, is_certain=False)
            unsent = isinstance(cause, aiohttp.ClientConnectorError)
            return NoAnswer(f'Post "{url}": {problem}', is_certain=unsent)
        except FencedError as problem:
            return NoAnswer(str(problem))
        if response.status != _OK:
            told = f"failed {verb} with extender at URL {url}, code {response.status}"
            return NoAnswer(told, is_certain=False)
        return response.body

    def _requests(self, asked_bytes: int) -> ProxiedRequests:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"Accept-Encoding": "identity"},
                auto_decompress=False,
            )
        return ProxiedRequests(
            self._session,
            self._server,
            self._routing,
            max_answer_bytes=MAX_ANSWER_BYTES + asked_bytes,
        )


class _NoLimit:
    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass


_NO_LIMIT: Final = _NoLimit()


# --- checks of the configuration ------------------------------------------------------------------


def extender_problems(
    extenders: Sequence[Extender],
    has_file: Callable[[str], bool] | None = None,
    *,
    may_lack_files: bool = False,
) -> Iterator[Problem]:
    """Yield the problems for which `ExtenderClient` raises, with their configuration paths.

    Args:
        extenders: the extenders of the configuration.
        has_file: returns whether a daemon on another machine has a file; by default the files are
            read.
        may_lack_files: whether an extender is accepted if one of its files is not on this machine.
    """
    for place, extender in enumerate(extenders):
        try:
            if _checked(extender).scheme == "https":
                _context(extender, has_file, may_lack_files=may_lack_files)
        except _UnusableError as problem:
            yield Problem(("extenders", place, *problem.path), problem.message)


class _UnusableError(ValueError):
    """A field of an extender's configuration cannot be used."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def _checked(extender: Extender) -> SplitResult:
    server = extender.url_prefix.rstrip("/")
    try:
        url = urlsplit(server)
        is_good = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        name = without_password(extender.url_prefix)
        message = f'expected http://HOST or https://HOST, got "{name}"'
        raise _UnusableError(("urlPrefix",), message)
    return urlsplit(server)


def _context(
    extender: Extender,
    has_file: Callable[[str], bool] | None = None,
    *,
    may_lack_files: bool = False,
) -> ssl.SSLContext | None:
    """Build the TLS context; with enableHTTPS and no authority, any certificate is accepted.

    None if the context needs a file of another machine. Source: `makeTransport`.
    """
    tls = extender.tls_config or ExtenderTlsConfig()
    has_authority = bool(tls.ca_file or tls.ca_data)
    has_certificate = bool(tls.cert_file or tls.cert_data)
    if tls.insecure and has_authority:
        message = "excludes caFile and caData; remove one of them"
        raise _UnusableError(("tlsConfig", "insecure"), message)
    if has_certificate is not bool(tls.key_file or tls.key_data):
        raise _UnusableError(("tlsConfig",), "a certificate and its key are wanted together")
    # Inline data has precedence over a file.
    files = TlsFiles(
        tls.ca_data or tls.ca_file or None,
        tls.cert_data or tls.cert_file or None,
        tls.key_data or tls.key_file or None,
        has_authority or not (tls.insecure or extender.enable_https),
    )
    named = {"caFile": files.ca, "certFile": files.cert, "keyFile": files.key}
    elsewhere = {field: name for field, name in named.items() if isinstance(name, str)}
    if has_file is not None and elsewhere:
        for field, name in elsewhere.items():
            if not has_file(name):
                message = f"the daemon's pods have no file {name}; give its content as data"
                raise _UnusableError(("tlsConfig", field), message)
        return None
    if may_lack_files and not all(map(os.path.isfile, elsewhere.values())):
        return None
    try:
        return load_tls(files).context
    except ConnectionConfigError as unusable:
        raise _UnusableError(("tlsConfig",), str(unusable)) from unusable
