"""What can go wrong when serving starts."""

from scheduler.errors import SchedulerError


class ServingError(SchedulerError):
    """The endpoints cannot be served as asked; the message names the flag or file."""
