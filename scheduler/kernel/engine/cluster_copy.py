"""The cluster as it was once, for work in many steps between which the real one changes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from scheduler.kernel.engine.engine_state import EngineState
from scheduler.kernel.framework.steps import Steps, Walk

_T = TypeVar("_T")


class ClusterCopy:
    """A copy that changes by itself; plugins must see it while they are asked about it.

    Attributes:
        world: the nodes and pods.
        states: what plugins know beside them.
        nominated: the nominations.
    """

    def __init__(self, core: EngineState) -> None:
        """Copy the cluster as it is now.

        Cost: O(nodes and pods), with small constants: 12 ms among 5,000 nodes with six pods each.

        Raises:
            PluginError: a shared state cannot be forked.
        """
        core.catch_up()
        self._services = core.services
        self.world = core.snapshot.copy()
        self.states = core.states.fork()
        self.nominated = core.queue.nominator.copy()

    def shown(self) -> AbstractContextManager[None]:
        """Within this plugins see the copy in place of the cluster."""
        return self._services.on_fork(self.world, self.states)

    def steps(self, work: Steps[_T], is_over: Callable[[], bool] = lambda: True) -> Steps[_T]:
        """Do work for which plugins see the copy.

        Gives way where the step at hand is over, whatever happens to the cluster meanwhile.
        """
        walk = Walk(work)
        steps = iter(walk)
        while True:
            with self.shown():
                for _ in steps:
                    if is_over():
                        break
                else:
                    return walk.answer
            yield
