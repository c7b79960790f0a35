"""The error at the start of the secure port."""

from scheduler.errors import SchedulerError


class ServingError(SchedulerError):
    """The endpoints cannot be served as configured; the message names the flag or file."""
