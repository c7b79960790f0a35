"""Listens on the secure port and answers authorized requests.

Source: cmd/kube-scheduler/app server.go buildHandlerChain; k8s.io/apiserver pkg/endpoints/filters
(1.36.3).
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from scheduler.clock import Clock, Throttle
from scheduler.config.options import RunOptions
from scheduler.daemon.client.errors import ApiError, cut
from scheduler.daemon.serving.answers import NOT_CACHED, failure, plain
from scheduler.daemon.serving.authentication import Authenticator, Reviews
from scheduler.daemon.serving.authorization import Authorizer
from scheduler.daemon.serving.connections import IDLE_SECONDS, Connections, connections_allowed
from scheduler.daemon.serving.endpoints import Endpoints, EndpointSources
from scheduler.daemon.serving.errors import ServingError
from scheduler.daemon.serving.limits import LimitedReviews
from scheduler.daemon.serving.listening import listen
from scheduler.daemon.serving.tls import ServingTls
from scheduler.errors import os_reason
from scheduler.observability.logs import get_logger, verbose

_SHUTDOWN_SECONDS: Final = 5.0
_MAX_BODY_BYTES: Final = 64 * 1024
_MAX_HEADER_BYTES: Final = 32 * 1024
"""A bearer token may have 16 KiB."""
_ANSWER_SECONDS: Final = 60.0
"""Time limit of an answer; a client must read it within this time."""

_LOG_AGAIN_SECONDS: Final = 10.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = get_logger(__name__)
_library = logging.getLogger("aiohttp.server")


class Server:
    """The server of the secure port.

    Raises:
        ServingError: a flag or a file cannot be used.
    """

    def __init__(
        self, options: RunOptions, sources: EndpointSources, reviews: Reviews, clock: Clock
    ) -> None:
        self._options = options
        self._clock = clock
        limited = LimitedReviews(reviews)
        self._authenticator = Authenticator(options, limited, clock)
        self._authorizer = Authorizer(options, limited, clock)
        self._failure_throttle = Throttle(clock, _LOG_AGAIN_SECONDS)
        self._malformed_throttle = Throttle(clock, _LOG_AGAIN_SECONDS)
        self._tls = ServingTls(options, clock)
        app = web.Application(
            middlewares=[self._answer_always, self._admit], client_max_size=_MAX_BODY_BYTES
        )
        app.add_routes(Endpoints(sources, clock).routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
            handler_cancellation=True,
            max_field_size=_MAX_HEADER_BYTES,
        )
        self._connections = Connections(
            self._protocol, self._tls.context, limit=connections_allowed()
        )
        self._listener: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            ServingError: the address cannot be listened on.
        """
        self._listener = listener = _listen(self._options)
        _library.addFilter(self._is_ours)
        await self._runner.setup()
        self._tasks = [
            asyncio.create_task(self._connections.accept(listener)),
            asyncio.create_task(self._tls.follow_files()),
        ]
        address, port = listener.getsockname()[:2]
        _log.info("HTTPS port open", address=address, port=port)

    async def stop(self) -> None:
        """Stop listening, and end unfinished answers after some seconds."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        await self._runner.cleanup()
        await self._connections.close()
        _library.removeFilter(self._is_ours)

    def check_healthy(self) -> str | None:
        """Return a message if a task of the port has ended, for the health endpoint; or None."""
        for task in self._tasks:
            if task.done():
                return f"{task.get_coro()} has ended"
        return None

    def _protocol(self) -> asyncio.Protocol:
        assert self._runner.server is not None  # noqa: S101 - set up before anything is accepted
        return self._runner.server()

    @web.middleware
    async def _answer_always(self, request: web.Request, handler: Handler) -> web.StreamResponse:  # noqa: C901 - one branch per way in which a request ends
        """Outermost: answer every request, without tracebacks, and forbid caching of the answer."""
        began = self._clock.monotonic()
        try:
            with self._connections.answering(request.transport):
                async with asyncio.timeout(_ANSWER_SECONDS):
                    response = await handler(request)
        except web.HTTPNotFound:
            response = plain("404 page not found\n", status=404)
        except web.HTTPMethodNotAllowed:
            response = plain("method not allowed\n", status=405)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as error:
            if request.transport is None:
                # Not logged: the client has closed the connection during the answer.
                raise ConnectionResetError("the caller has hung up") from error
            self._log_failure("Endpoint failed", request, error)
            if request.writer.output_size:
                # The answer has begun: only a broken connection can mark it as failed.
                request.transport.abort()
                raise ConnectionResetError("answered in part") from error
            response = plain("internal server error\n", status=500)
        if not response.prepared:
            response.headers.update(NOT_CACHED)
        if verbose(3):
            _log.info(
                "HTTP",
                v=3,
                verb=request.method,
                path=request.path,
                status=response.status,
                remote=request.remote,
                duration_seconds=round(self._clock.monotonic() - began, 6),
            )
        return response

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Pass authorized requests to their handlers; refuse the others."""
        if self._options.serve_without_authorization:
            self._connections.admit(request.transport)
            return await handler(request)
        if not self._tls.would_accept(request.transport):
            # The next connection is refused by its handshake.
            refusal = failure(HTTPStatus.UNAUTHORIZED, "Unauthorized")
            refusal.force_close()
            return refusal
        try:
            user = await self._authenticator.user_of(request, self._tls.authorities)
        except ApiError as error:
            self._log_failure("Who asks is not known", request, error)
            user = None
        if user is None:
            return failure(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        verb = request.method.lower()
        try:
            allowed = await self._authorizer.allows(user, request.path, verb)
        except ApiError as error:
            self._log_failure("Rights of who asks are not known", request, error)
            return plain("internal server error: the request could not be authorized\n", 500)
        if not allowed:
            message = f'forbidden: User "{user.name}" cannot {verb} path "{request.path}"'
            return failure(HTTPStatus.FORBIDDEN, message)
        self._connections.admit(request.transport)
        return await handler(request)

    def _log_failure(self, what: str, request: web.Request, error: Exception) -> None:
        """Log a failure, limited in rate: unauthenticated clients can cause failures."""
        held_back = self._failure_throttle.take()
        if held_back is None:
            return
        trace = None if isinstance(error, ApiError) else error
        _log.error(what, path=request.path, err=str(error), not_logged=held_back, exc_info=trace)

    def _is_ours(self, record: logging.LogRecord) -> bool:
        """Return whether a log record of aiohttp is a bug, not caused by a client's bad input."""
        problem = record.exc_info[1] if record.exc_info else None
        if isinstance(problem, HttpProcessingError | RequestPayloadError):
            held_back = self._malformed_throttle.take()
            if held_back is not None:
                [first, *_] = str(problem).splitlines() or [""]
                _log.warning("Malformed request", err=cut(first), not_logged=held_back)
            return False
        # Not logged: the client has closed the connection during the answer.
        return not isinstance(problem, ConnectionError)


def _listen(options: RunOptions) -> socket.socket:
    address, port = options.bind_address, options.secure_port
    try:
        return listen(address, port, reuse_port=options.permit_port_sharing)
    except OSError as error:
        flags = f"--bind-address={address} --secure-port={port}"
        raise ServingError(f"{flags}: cannot be listened on: {os_reason(error)}") from error
