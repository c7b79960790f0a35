"""The commands `stowage` and, as a plugin of kubectl, `kubectl stowage`."""

import os
import signal
import sys

from scheduler.tools.cli.main import main

__all__ = ["kubectl_plugin", "main"]


def kubectl_plugin() -> None:
    """The same commands; kubectl finds them under this program's name."""
    main(prog_name="kubectl stowage")


def _end_when_asked() -> None:
    """End on SIGTERM until a command handles it itself.

    The kernel drops signals without a handler for the first process of a container. A pod deleted
    at its start would run on until it is killed, possibly as the leader.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


if __name__ == "__main__":
    _end_when_asked()
    main()
