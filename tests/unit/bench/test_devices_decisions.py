"""The benchmark of decisions about devices finds devices for every kind of claim."""

import gc

from click.testing import CliRunner

from bench.decisions.devices import main


def test_every_kind_of_claim_is_timed() -> None:
    thresholds = gc.get_threshold()
    try:
        done = CliRunner().invoke(
            main, ["--nodes", "30", "--decisions", "5", "--changed", "240"], catch_exceptions=False
        )
    finally:
        gc.set_threshold(*thresholds)

    lines = done.output.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "one device",
        "4 devices of one NUMA node",
        "2 requests, one NUMA node",
        "a prioritized list",
        "one partition",
        "240 devices change, 10 slices between two decisions",
    ]
    assert all(" ms" in line for line in lines)
