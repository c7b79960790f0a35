"""The commands `stowage` and, as a plugin of kubectl, `kubectl stowage`."""

from scheduler.tools.cli.main import main

__all__ = ["kubectl_plugin", "main"]


def kubectl_plugin() -> None:
    """The same commands; kubectl finds them under this program's name."""
    main(prog_name="kubectl stowage")


if __name__ == "__main__":
    main()
