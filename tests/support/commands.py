"""Commands of `stowage` in this process: what they say is what a shell would see.

A process of its own takes a second of processor time, most of it for imports. Tests start one where
the process is the point: its end, its hash seed, what it may write.
"""

from pathlib import Path

from click.testing import CliRunner, Result

from scheduler.tools.cli.main import main


def stowage(*words: str | Path) -> Result:
    """Run a command; an error that a shell would see as a traceback is raised."""
    result = CliRunner().invoke(main, [str(word) for word in words], prog_name="stowage")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
