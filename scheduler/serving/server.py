"""Listens on the secure port and answers those who may ask.

Source: cmd/kube-scheduler/app server.go buildHandlerChain; k8s.io/apiserver pkg/endpoints/filters
(1.36.3).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from aiohttp import web

from scheduler.client.errors import ApiError
from scheduler.clock import Clock
from scheduler.config.options import RunOptions
from scheduler.observability.logs import get_logger, verbose
from scheduler.serving.answers import NOT_CACHED, failure, plain
from scheduler.serving.authentication import Authenticator, Reviews
from scheduler.serving.authorization import Authorizer
from scheduler.serving.endpoints import Endpoints, Shown
from scheduler.serving.errors import ServingError
from scheduler.serving.tls import ServingTls

_SHUTDOWN_SECONDS: Final = 5.0
_MAX_BODY_BYTES: Final = 64 * 1024
_BACKLOG: Final = 128

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = get_logger(__name__)


class Server:
    """The secure port.

    Args:
        options: address, certificates, and who may see what.
        shown: what is served.
        reviews: asks the API server about callers.
        clock: for caches and certificates.

    Raises:
        ServingError: a flag or a file cannot be used.
    """

    def __init__(self, options: RunOptions, shown: Shown, reviews: Reviews, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._authenticator = Authenticator(options, reviews, clock)
        self._authorizer = Authorizer(options, reviews, clock)
        self._tls = ServingTls(options, clock)
        app = web.Application(
            middlewares=[self._answer_always, self._admit], client_max_size=_MAX_BODY_BYTES
        )
        app.add_routes(Endpoints(shown, clock).routes())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            ServingError: the address cannot be listened on.
        """
        await self._runner.setup()
        listener = _listen(self._options)
        site = web.SockSite(self._runner, listener, ssl_context=self._tls.context, backlog=_BACKLOG)
        await site.start()
        self._following = asyncio.create_task(self._tls.follow_files())
        address, port = listener.getsockname()[:2]
        _log.info("HTTPS port open", address=address, port=port)

    async def stop(self) -> None:
        """Stop listening, and end what is being answered after some seconds."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        await self._runner.cleanup()

    @web.middleware
    async def _answer_always(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Outermost: an answer for everything, never a trace, nothing to be cached."""
        began = self._clock.monotonic()
        try:
            response = await handler(request)
        except web.HTTPNotFound:
            response = plain("404 page not found\n", status=404)
        except web.HTTPMethodNotAllowed:
            response = plain("method not allowed\n", status=405)
        except (web.HTTPException, ConnectionResetError):
            raise
        except Exception as error:  # noqa: BLE001  a broken endpoint must not take the port down
            _log.error("Endpoint failed", path=request.path, exc_info=error)
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
        """Let those through who may."""
        if self._options.serve_without_authorization:
            return await handler(request)
        try:
            user = await self._authenticator.user_of(request, self._tls.authorities)
        except ApiError as error:
            _log.error("Who asks is not known", path=request.path, err=str(error))
            user = None
        if user is None:
            return failure(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        verb = request.method.lower()
        try:
            allowed = await self._authorizer.allows(user, request.path, verb)
        except ApiError as error:
            _log.error("Rights of who asks are not known", path=request.path, err=str(error))
            return plain("internal server error: the request could not be authorized\n", 500)
        if not allowed:
            message = f'forbidden: User "{user.name}" cannot {verb} path "{request.path}"'
            return failure(HTTPStatus.FORBIDDEN, message)
        return await handler(request)


def _listen(options: RunOptions) -> socket.socket:
    address = (options.bind_address, options.secure_port)
    family = socket.AF_INET6 if ":" in options.bind_address else socket.AF_INET
    try:
        return socket.create_server(
            address,
            family=family,
            backlog=_BACKLOG,
            reuse_port=options.permit_port_sharing,
            dualstack_ipv6=family is socket.AF_INET6 and options.bind_address == "::",
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        flags = f"--bind-address={address[0]} --secure-port={address[1]}"
        raise ServingError(f"{flags}: cannot be listened on: {reason}") from error
