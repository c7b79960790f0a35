"""The one place where plugins are called: timed, and guarded against what they may do or answer.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (run...Plugin) v1.36.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any, Final, TypeAlias, TypeVar

from scheduler.api.pods import PodInfo
from scheduler.errors import SchedulerError
from scheduler.framework.interface import Plugin
from scheduler.framework.runtime.answers import WrongAnswerError
from scheduler.framework.status import CODE_NAMES, Code, Status
from scheduler.observability.framework_metrics import FrameworkMetrics
from scheduler.observability.instruments import Instruments

_SHOWN_TO_NOBODY: Final = FrameworkMetrics(Instruments())

R = TypeVar("R")
E = TypeVar("E")

TimeLimit: TypeAlias = Callable[[float], AbstractAsyncContextManager[object]]
"""Makes what a call that may wait so many seconds runs in; an Exception when it takes longer."""


class PluginError(SchedulerError):
    """A plugin raised, or answered what it must not. Fails the pod's attempt, nothing else.

    Attributes:
        plugin: its name.
        point: the extension point.
    """

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f'running {point} plugin "{plugin}": {problem}')
        self.plugin = plugin
        self.point = point


class PluginCalls:
    """Calls the plugins of one profile; every call of every extension point goes through here.

    Attributes:
        profile: its name.
        metrics: what is counted and timed.
        now: monotonic seconds.
        on_failed: hears of failures that fail no attempt: of PreEnqueue, QueueSort and hints.
        sampled: whether the calls of the present cycle are timed.
        steps: when each extension point of the present cycle ended, and its name.
    """

    __slots__ = ("_time_limit", "metrics", "now", "on_failed", "profile", "sampled", "steps")

    def __init__(
        self,
        profile: str,
        metrics: FrameworkMetrics,
        now: Callable[[], float],
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
        """What follows, until the loop is given back, belongs to a new cycle."""
        self.sampled = sampled
        self.steps.clear()

    @contextmanager
    def unmeasured(self) -> Iterator[None]:
        """Within this, calls are none of the scheduler's own: somebody asks what would be."""
        before = self.metrics, self.sampled, self.steps
        self.metrics, self.sampled, self.steps = _SHOWN_TO_NOBODY, False, []
        try:
            yield
        finally:
            self.metrics, self.sampled, self.steps = before

    def asks_about_volumes(self, pod: PodInfo) -> bool:
        """Whether plugins that have a use for pods with volumes only are asked about this one.

        In a sampled cycle they are asked about every pod, as kube-scheduler's are: its metrics
        have a row of each.
        """
        return bool(pod.pod.volumes) or self.sampled

    def step(self, name: str) -> None:
        """Note that something else of the present cycle is done."""
        self.steps.append((self.now(), name))

    def point_done(self, point: str, status: Code, start: float, *, is_step: bool = True) -> float:
        """Report a whole extension point, whatever plugins it has.

        Args:
            point: its name.
            status: how it ended for the pod.
            start: when it began.
            is_step: whether the present cycle takes it.

        Returns:
            When it ended: the start of what follows.
        """
        end = self.now()
        duration = self.metrics.extension_point_duration
        duration[point, CODE_NAMES[status], self.profile].observe(end - start)
        if is_step:
            self.steps.append((end, point))
        return end

    def call(
        self,
        plugin: Plugin,
        point: str,
        check: Callable[[Any, E], R] | None,
        expected: E,
        method: Callable[..., Any],
        *args: Any,
    ) -> R:
        """The plugin's answer, checked.

        Args:
            plugin: who is asked.
            point: where.
            check: see `answers`; None for a plugin that is trusted to answer a column rightly.
            expected: what the check needs to know beside the answer.
            method: the plugin's.
            args: what it is given.

        Raises:
            PluginError: the plugin raised, or answered what it must not.
        """
        if self.sampled:
            return self._timed(plugin, point, check, expected, method, args)
        try:
            answer = method(*args)
            return answer if check is None else check(answer, expected)
        except Exception as problem:
            raise self.failed(plugin.NAME, point, problem) from problem

    async def call_async(
        self,
        plugin: Plugin,
        point: str,
        check: Callable[[Any, E], R],
        expected: E,
        method: Callable[..., Awaitable[Any]],
        *args: Any,
    ) -> R:
        """The checked answer of a plugin that may wait for I/O, within its patience.

        Raises:
            PluginError: the plugin raised, took too long, or answered what it must not.
        """
        # Whichever cycle `sampled` is about by now: it is a share of the calls all the same.
        sampled, start, status = self.sampled, self.now(), "Error"
        try:
            async with self._time_limit(plugin.patience_seconds):
                answer = await method(*args)
            checked = check(answer, expected)
            status = _status_name(checked)
        except Exception as problem:
            raise self.failed(plugin.NAME, point, problem) from problem
        finally:
            if sampled:
                self._report(plugin, point, status, start)
        return checked

    def failed(self, plugin: str, point: str, problem: Exception) -> PluginError:
        """What to raise, or to note, when a plugin failed; counts it."""
        self.metrics.plugin_errors[plugin, point].inc()
        return plugin_error(plugin, point, problem)

    def _timed(
        self,
        plugin: Plugin,
        point: str,
        check: Callable[[Any, E], R] | None,
        expected: E,
        method: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> R:
        start, status = self.now(), "Error"
        try:
            answer: R = method(*args)
            if check is not None:
                answer = check(answer, expected)
            status = _status_name(answer)
        except Exception as problem:
            raise self.failed(plugin.NAME, point, problem) from problem
        finally:
            self._report(plugin, point, status, start)
        return answer

    def _report(self, plugin: Plugin, point: str, status: str, start: float) -> None:
        metrics = self.metrics
        metrics.plugin_execution_duration[plugin.NAME, point, status].observe(self.now() - start)
        metrics.plugin_evaluation[plugin.NAME, point, self.profile].inc()


def plugin_error(plugin: str, point: str, problem: Exception) -> PluginError:
    """What a plugin did, in words."""
    try:
        told = str(problem)
    except Exception:  # noqa: BLE001 - foreign code to the last
        told = "(it cannot say why)"
    if not isinstance(problem, WrongAnswerError):
        told = f"{type(problem).__name__}: {told}"
    return PluginError(plugin, point, told)


def _status_name(answer: object) -> str:
    if isinstance(answer, tuple):
        answer = next((part for part in answer if isinstance(part, Status)), None)
    return answer.code.upstream_name if isinstance(answer, Status) else "Success"
