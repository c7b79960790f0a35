"""Root of what the sandbox raises."""

from scheduler.errors import SchedulerError


class SandboxError(SchedulerError):
    """Something the stand-in API server refuses, or was told wrongly.

    ```
    SandboxError
    ├── StatusError      an answer to a client that is not a success (status.py)
    ├── QuantityError    a text that is not a quantity (quantities.py)
    └── SelectorError    a text that is not a selector (selectors.py)
    ```
    """
