"""Where the pods of an instance have files beside those of the image. Pure."""

from typing import Final

from scheduler.operator.resources import Scheduler

PLUGINS: Final = "/plugins"
"""Where packages of plugins are mounted, and where an image has its own."""
SERVING: Final = "/etc/stowage-serving"
RECORDINGS: Final = "/var/lib/stowage"


def mounted_in(scheduler: Scheduler) -> tuple[str, ...]:
    """Folders with the files that a configuration may name."""
    images = (each.name for each in scheduler.spec.plugins if each.wheel is None)
    serving = (f"{SERVING}/",) if scheduler.spec.serving.secret_name else ()
    return (*serving, *(f"{PLUGINS}/{name}/" for name in images))
