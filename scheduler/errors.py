"""The root of every error Stowage raises on purpose.

SchedulerError
├── config.ConfigError        the configuration, a flag or a file given by a person is wrong
└── …                         each room derives its own in the module that raises it
"""


class SchedulerError(Exception):
    """Something Stowage can explain in one message; `str()` of it is fit to be shown to people."""
