"""Calls of plugins: guarded, checked, timed and counted.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (run...Plugin) v1.36.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from inspect import isawaitable
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from scheduler.errors import FOREIGN_ERRORS, SchedulerError, in_words
from scheduler.kernel.framework.interface import Plugin
from scheduler.kernel.framework.runtime.answers import Check, WrongAnswerError, wrong
from scheduler.kernel.framework.status import CODE_NAMES, Code, Status
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments

_UNSEEN: Final = FrameworkMetrics(Instruments())

FAILS_NO_ATTEMPT: Final = frozenset({"PreEnqueue", "QueueSort", "QueueingHint"})
"""The extension points whose failures fail no attempt; the caller reports them with the pod."""

_AWAITABLE: Final = "an awaitable: the method must be `async def`"

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
"""The address of an object in its text: it would change the pod's condition at each attempt."""

_EXPLAINED: Final = (WrongAnswerError, SchedulerError)
"""Errors that need no traceback: the failed attempt is logged with their message."""

P = ParamSpec("P")
R = TypeVar("R")
TimeLimit: TypeAlias = Callable[[float], AbstractAsyncContextManager[object]]
"""Makes the context of a call with a time limit in seconds; raises when it takes longer."""


class PluginError(SchedulerError):
    """A plugin raised, or returned a forbidden answer. Fails the pod's attempt, nothing else.

    Attributes:
        plugin: its name.
        point: the extension point.
        pod: namespace and name of the pod, where the failure fails no attempt; or empty.
    """

    pod: str = ""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f'running {point} plugin "{plugin}": {problem}')
        self.plugin = plugin
        self.point = point


class PluginCalls:
    """Binds the methods of one profile's plugins, and measures their calls.

    Attributes:
        profile: its name.
        metrics: the counters and timers.
        now: monotonic seconds.
        on_failed: receives the failures of PreEnqueue, QueueSort and hints, which fail no attempt,
            and the unexpected exceptions of all other points.
        sampled: whether the calls of the present cycle are timed.
        steps: the end time and name of each extension point of the present cycle.
    """

    def __init__(
        self,
        profile: str,
        metrics: FrameworkMetrics = _UNSEEN,
        now: Callable[[], float] = lambda: 0.0,
        *,
        time_limit: TimeLimit = nullcontext,
        on_failed: Callable[[PluginError], object] = lambda _: None,
    ) -> None:
        self.profile = profile
        self.metrics = metrics
        self.now = now
        self._time_limit = time_limit
        self.on_failed = on_failed
        self.sampled = False
        self.steps: list[tuple[float, str]] = []

    def begin_cycle(self, *, sampled: bool) -> None:
        """Begin a new cycle; calls belong to it until the next one begins."""
        self.sampled = sampled
        self.steps.clear()

    @contextmanager
    def unmeasured(self) -> Iterator[None]:
        """Keep calls in this block out of the metrics: they are hypothetical."""
        before = self.metrics, self.sampled, self.steps
        self.metrics, self.sampled, self.steps = _UNSEEN, False, []
        try:
            yield
        finally:
            self.metrics, self.sampled, self.steps = before

    def step(self, name: str) -> None:
        """Note the end of another step of the present cycle."""
        self.steps.append((self.now(), name))

    def point_done(self, point: str, status: Code, start: float, *, is_step: bool = True) -> float:
        """Report the end of an extension point, whatever plugins it has; return its time.

        The next point begins then. `status` is the code with which the point ended for the pod.
        With `is_step`, it is a step of the present cycle.
        """
        end = self.now()
        duration = self.metrics.extension_point_duration
        duration[point, CODE_NAMES[status], self.profile].observe(end - start)
        if is_step:
            self.steps.append((end, point))
        return end

    def bound(
        self,
        plugin: Plugin,
        point: str,
        method: Callable[P, Any],
        check: Check[R] | None = None,
        *,
        is_timed: bool = True,
    ) -> Callable[P, R]:
        """Bind a plugin's method, whose answer is checked; called without keywords.

        There is no `check` for a plugin that is trusted to return correct columns. `is_timed`:
        whether kube-scheduler times such calls.

        Returns:
            A function that raises only `PluginError`: the method raised, or its answer is wrong.
        """

        def call(*args: Any) -> Any:
            start, status = self.now() if is_timed and self.sampled else None, "Error"
            try:
                answer: Any = method(*args)  # type: ignore[call-arg] # without keywords
                if check is not None:
                    answer = check(answer, args)
                status = "" if start is None else _status_name(answer)
            except FOREIGN_ERRORS as problem:
                raise self.failed(name, point, problem) from problem
            finally:
                if start is not None:
                    self._report(name, point, status, start)
            return answer

        name = plugin.NAME
        return cast("Callable[P, R]", call)

    def guarded(
        self, plugin: Plugin, point: str, method: Callable[P, Any], check: Check[R] | None = None
    ) -> Callable[P, R]:
        """As `bound`, for calls that kube-scheduler does not time."""
        return self.bound(plugin, point, method, check, is_timed=False)

    def bound_async(
        self, plugin: Plugin, point: str, method: Callable[P, Awaitable[R]], check: Check[R]
    ) -> Callable[P, Awaitable[R]]:
        """As `bound`, for a method that may wait for I/O, within the plugin's patience."""

        async def call(*args: Any) -> R:
            # Another cycle may have set `sampled` since: it still selects a share of the calls.
            sampled, start, status = self.sampled, self.now(), "Error"
            try:
                async with self._time_limit(plugin.patience_seconds):
                    started: Any = method(*args)  # type: ignore[call-arg] # without keywords
                    answer = await started if isawaitable(started) else wrong(started, _AWAITABLE)
                checked = check(answer, args)
                status = _status_name(checked)
            except (Exception, SystemExit) as problem:
                raise self.failed(plugin.NAME, point, problem) from problem
            finally:
                if sampled:
                    self._report(plugin.NAME, point, status, start)
            return checked

        return cast("Callable[P, Awaitable[R]]", call)

    def failed(self, plugin: str, point: str, problem: BaseException) -> PluginError:
        """Make the error to raise when a plugin failed, and count it."""
        self.metrics.plugin_errors[plugin, point].inc()
        error = plugin_error(plugin, point, problem)
        if point not in FAILS_NO_ATTEMPT and not isinstance(problem, _EXPLAINED):
            self.on_failed(error)
        return error

    def spared(self, plugin: str, point: str, code: Code) -> None:
        """Observe a call that the runtime spares because its answer is known."""
        self._report(plugin, point, CODE_NAMES[code], self.now())

    def _report(self, plugin: str, point: str, status: str, start: float) -> None:
        metrics = self.metrics
        metrics.plugin_execution_duration[plugin, point, status].observe(self.now() - start)
        metrics.plugin_evaluation[plugin, point, self.profile].inc()


def plugin_error(plugin: str, point: str, problem: BaseException) -> PluginError:
    """Make the error for an exception of a plugin, with its text."""
    message = _ADDRESS.sub("", in_words(problem))
    if not isinstance(problem, WrongAnswerError):
        name = type(problem).__name__
        message = f"{name}: {message}" if message else name
    error = PluginError(plugin, point, message)
    # Set here, because some of these errors are never raised.
    error.__cause__ = problem
    return error


def _status_name(answer: object) -> str:
    if isinstance(answer, tuple):
        answer = next((part for part in answer if isinstance(part, Status)), None)
    return answer.code.upstream_name if isinstance(answer, Status) else "Success"
