"""The one place where plugins are called: timed, and guarded against what they may do.

Source: kubernetes pkg/scheduler/framework/runtime/framework.go (run...Plugin) v1.36.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from scheduler.errors import SchedulerError
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Code, Status

R = TypeVar("R")


class PluginError(SchedulerError):
    """A plugin raised, or answered what it must not answer. Fails the pod's attempt, nothing else.

    Attributes:
        plugin: its name.
    """

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f'running {point} plugin "{plugin}": {problem}')
        self.plugin = plugin


class PluginObserver(Protocol):
    """Hears how long plugin calls took."""

    def plugin_called(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One call of one plugin, in a cycle that is sampled."""
        ...

    def plugin_evaluated(self, plugin: str, point: str) -> None:
        """A plugin took part in an extension point for one pod, in a cycle that is sampled."""
        ...

    def plugin_failed(self, plugin: str, point: str) -> None:
        """A plugin raised, or answered what it must not."""
        ...

    def extension_point_done(self, point: str, status: str, seconds: float) -> None:
        """All plugins of an extension point have run for one pod; told in every cycle."""
        ...


class PluginCalls:
    """Calls plugins; every call of every extension point goes through here.

    Attributes:
        sampled: whether the calls of the present cycle are timed.
        now: monotonic seconds.
        steps: when each extension point of the present cycle ended, and its name.
    """

    __slots__ = ("_observer", "now", "sampled", "steps")

    def __init__(self, observer: PluginObserver | None, now: Callable[[], float]) -> None:
        self._observer = observer
        self.now = now
        self.sampled = False
        self.steps: list[tuple[float, str]] = []

    def begin_cycle(self, *, sampled: bool) -> None:
        """What follows, until the loop is given back, belongs to a new cycle."""
        self.sampled = sampled
        self.steps.clear()

    def step(self, name: str) -> None:
        """Note that something else of the present cycle is done."""
        self.steps.append((self.now(), name))

    def point_done(self, point: str, status: Code, start: float) -> float:
        """Report a whole extension point, whatever plugins it has.

        Args:
            point: its name.
            status: how it ended for the pod.
            start: when it began.

        Returns:
            When it ended: the start of what follows.
        """
        end = self.now()
        self.steps.append((end, point))
        if self._observer is not None:
            self._observer.extension_point_done(point, status.upstream_name, end - start)
        return end

    def point_took(self, point: str, status: Code, seconds: float) -> None:
        """Report an extension point that was not run here."""
        if self._observer is not None:
            self._observer.extension_point_done(point, status.upstream_name, seconds)

    def call(self, plugin: Plugin, point: str, method: Callable[..., R], *args: Any) -> R:
        """The plugin's answer.

        Raises:
            PluginError: the plugin raised.
        """
        if self.sampled and self._observer is not None:
            return self._timed(self._observer, plugin, point, method, args)
        try:
            return method(*args)
        except Exception as problem:
            raise self._plugin_error(plugin, point, problem) from problem

    async def call_async(
        self, plugin: Plugin, point: str, method: Callable[..., Awaitable[R]], *args: Any
    ) -> R:
        """The answer of a plugin that may wait for I/O.

        Raises:
            PluginError: the plugin raised.
        """
        # Whichever cycle `sampled` is about by now: it is a share of the calls all the same.
        observer = self._observer if self.sampled else None
        start = self.now()
        status = "Error"
        try:
            answer = await method(*args)
            status = _status_name(answer)
        except Exception as problem:
            raise self._plugin_error(plugin, point, problem) from problem
        finally:
            if observer is not None:
                observer.plugin_called(plugin.NAME, point, status, self.now() - start)
                observer.plugin_evaluated(plugin.NAME, point)
        return answer

    def _timed(
        self,
        observer: PluginObserver,
        plugin: Plugin,
        point: str,
        method: Callable[..., R],
        args: tuple[Any, ...],
    ) -> R:
        start = self.now()
        status = "Error"
        try:
            answer = method(*args)
            status = _status_name(answer)
        except Exception as problem:
            raise self._plugin_error(plugin, point, problem) from problem
        finally:
            observer.plugin_called(plugin.NAME, point, status, self.now() - start)
            observer.plugin_evaluated(plugin.NAME, point)
        return answer

    def _plugin_error(self, plugin: Plugin, point: str, problem: Exception) -> PluginError:
        if self._observer is not None:
            self._observer.plugin_failed(plugin.NAME, point)
        return PluginError(plugin.NAME, point, f"{type(problem).__name__}: {problem}")


def _status_name(answer: object) -> str:
    if isinstance(answer, tuple):
        answer = next((part for part in answer if isinstance(part, Status)), None)
    return answer.code.upstream_name if isinstance(answer, Status) else "Success"
