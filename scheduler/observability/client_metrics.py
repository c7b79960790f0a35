"""Metrics of requests to the API server and of watches.

Source: k8s.io/component-base/metrics/prometheus/restclient v0.36. It has no metrics of watches.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.observability.instruments import Instruments

_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_REVIEW_SECONDS: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
_BYTES: Final = tuple(float(size) for size in (64, 256, 512, *(4**k for k in range(5, 13))))
WATCH_ENDS: Final = ("ended", "failed", "expired")
"""The ends of a watch: ended by the server, failed, or expired, which requires a relist."""


class ClientMetrics:
    """The families of requests; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.requests = add.counter(
            "rest_client_requests_total",
            "Requests to the API server by status code, method and host.",
            "code",
            "method",
            "host",
        )
        self.request_duration = add.histogram(
            "rest_client_request_duration_seconds",
            "Time of a request to the API server until its answer.",
            "verb",
            "host",
            bounds=_SECONDS,
        )
        self.rate_limiter_duration = add.histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Time a request waited because clientConnection.qps limits them.",
            "verb",
            "host",
            bounds=_SECONDS,
        )
        self.request_size = add.histogram(
            "rest_client_request_size_bytes",
            "Size of the bodies sent to the API server.",
            "verb",
            "host",
            bounds=_BYTES,
        )
        self.response_size = add.histogram(
            "rest_client_response_size_bytes",
            "Size of the bodies that came back, watches left out.",
            "verb",
            "host",
            bounds=_BYTES,
        )

    def observe(
        self,
        method: str,
        code: str,
        host: str,
        seconds: float,
        sent: int,
        received: int | None,
    ) -> None:
        """Count and measure a request; `received` is None for streams and without an answer."""
        self.requests[code, method, host].inc()
        self.request_duration[method, host].observe(seconds)
        self.request_size[method, host].observe(sent)
        if received is not None:
            self.response_size[method, host].observe(received)


class ReviewMetrics:
    """Metrics of TokenReviews (`authn`) and SubjectAccessReviews (`authz`), by status code.

    Source: k8s.io/apiserver pkg/authentication/authenticatorfactory,
    pkg/authorization/authorizerfactory metrics.go v0.36.
    """

    def __init__(self, add: Instruments) -> None:
        self.requests = {
            about: add.counter(
                f"apiserver_delegated_{about}_request_total",
                "Reviews of callers that the API server was asked for.",
                "code",
            )
            for about in ("authn", "authz")
        }
        self.duration = {
            about: add.histogram(
                f"apiserver_delegated_{about}_request_duration_seconds",
                "Time of a review of a caller.",
                "code",
                bounds=_REVIEW_SECONDS,
            )
            for about in ("authn", "authz")
        }


class InformerMetrics:
    """The families of watches; indexed by label values in the order of declaration."""

    def __init__(self, add: Instruments) -> None:
        self.watch_restarts = add.counter(
            "stowage_watch_restarts_total",
            "Watches that had to be started again, by kind of object and reason.",
            "kind",
            "reason",
        )
        self.malformed_objects = add.counter(
            "stowage_malformed_objects_total",
            "Objects that could not be read and were left out, by kind.",
            "kind",
        )

    def begin(self, kinds: Iterable[str]) -> None:
        """Set the counters of every watched kind, such as `pods`, to zero."""
        for kind in kinds:
            self.malformed_objects[kind].inc(0)
            for reason in WATCH_ENDS:
                self.watch_restarts[kind, reason].inc(0)
