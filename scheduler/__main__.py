"""The command `stowage`."""

from scheduler.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
