"""The mount paths in the pods of an instance. Pure."""

from typing import Final

from scheduler.operator.resources import Scheduler

PLUGINS: Final = "/plugins"
"""The mount path of plugin packages, and their path in an image."""
SERVING: Final = "/etc/stowage-serving"
RECORDINGS: Final = "/var/lib/stowage"
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The mount path of the pod's token and of the cluster's certificate authority."""


def mounted_in(scheduler: Scheduler) -> tuple[str, ...]:
    """Return the directories of the files that a configuration or a flag may name."""
    images = (each.name for each in scheduler.spec.plugins if each.wheel is None)
    serving = (f"{SERVING}/",) if scheduler.spec.serving.secret_name else ()
    return (f"{SERVICE_ACCOUNT}/", *serving, *(f"{PLUGINS}/{name}/" for name in images))
