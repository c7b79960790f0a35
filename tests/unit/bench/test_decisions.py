"""The benchmark of decisions times the workloads that it includes, also those with devices."""

from click.testing import CliRunner

from bench.decisions.__main__ import main
from bench.workload import load_workloads


def test_a_short_run_times_decisions_about_devices() -> None:
    """It prints both tables, keeps nothing, and nothing goes wrong."""
    words = ["--short", "--workload", "one-device", "--nodes", "40"]

    done = CliRunner().invoke(main, words, catch_exceptions=False)

    assert done.exit_code == 0
    assert "one-device, 40 nodes: " in done.stderr
    assert "fits nowhere" not in done.output
    assert "kept in" not in done.output
    assert [
        line.split("\u2502")[1].strip() for line in done.stdout.splitlines() if "\u2502" in line
    ] == [
        "one-device",
        "one-device",
    ]


def test_workloads_with_devices_are_included() -> None:
    """Without a name all are timed whose files say how many decisions."""
    claiming = [each for each in load_workloads().values() if each.devices is not None]

    assert claiming
    assert all(each.decisions for each in claiming)
