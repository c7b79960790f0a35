"""Measures the evaluation of one CEL selector over many devices.

    python -m bench.expressions                    # 40,000 devices on 5,000 nodes

Prints for each selector the best time of a pass in microseconds, and for comparison what one device
takes by itself.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.kernel.cel import (
    AttributeValue,
    Column,
    Columns,
    Program,
    attribute_value,
    compile_expression,
)

DRIVER: Final = "gpu.example.com"
PER_NODE: Final = 8
ROUNDS: Final = 30
SELECTORS: Final = {
    "driver": f'device.driver == "{DRIVER}"',
    "driver and model": (
        f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "h100"'
    ),
    "four terms": (
        f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "h100" && '
        f'device.attributes["{DRIVER}"].index < 4 && '
        f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("40Gi"))'
    ),
    "version": (
        f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("550.0.0")) || '
        f'device.attributes["{DRIVER}"].?fallback.orValue(false)'
    ),
    "pattern": f'device.attributes["{DRIVER}"].model.matches("^h[0-9]+")',
    "serial (all different)": f'device.attributes["{DRIVER}"].serial == "s-00017"',
}


@dataclass
class Fleet:
    """Devices of identical nodes, in columns."""

    count: int
    drivers: Column[str]
    allow_multiple_allocations: NDArray[np.bool_]
    attributes: Columns[AttributeValue]
    capacities: Columns[str]
    unreadable: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.count


def fleet(count: int) -> Fleet:
    """Build devices with two models, a node index, a version and a serial number each."""
    rows = np.arange(count)
    return Fleet(
        count,
        Column((rows % PER_NODE == PER_NODE - 1).astype(np.int32), [DRIVER, "nic.example.com"]),
        np.zeros(count, np.bool_),
        {
            DRIVER: {
                "model": Column((rows // PER_NODE % 2).astype(np.int32), ["h100", "a100"]),
                "index": Column((rows % PER_NODE).astype(np.int32), list(range(PER_NODE))),
                "driverVersion": Column(
                    (rows // PER_NODE % 3).astype(np.int32),
                    [attribute_value(version=v) for v in ("535.1.0", "550.54.15", "570.0.0")],
                ),
                "serial": Column(rows.astype(np.int32), [f"s-{row:05d}" for row in range(count)]),
            }
        },
        {DRIVER: {"memory": Column((rows // PER_NODE % 2).astype(np.int32), ["80Gi", "40Gi"])}},
    )


def _best(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = perf_counter_ns()
        run()
        times.append(perf_counter_ns() - start)
    return min(times) / 1000


def measure(program: Program, table: Fleet, rounds: int = ROUNDS) -> tuple[float, float]:
    """Return the time of a pass over all devices, and of one device alone, in microseconds."""
    one = np.array([0])
    return (
        _best(lambda: program.evaluate(table), rounds),
        _best(lambda: program.evaluate(table, one), rounds),
    )


def main() -> int:
    """Measure every selector."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=40_000)
    arguments = parser.parse_args()
    table = fleet(arguments.devices)
    print(f"{'selector':24} {'all, us':>10} {'one, us':>10} {'matches':>10}")
    for name, expression in SELECTORS.items():
        program = compile_expression(expression)
        every, one = measure(program, table)
        matches = int(np.count_nonzero(program.evaluate(table).matches))
        print(f"{name:24} {every:10.1f} {one:10.1f} {matches:10d}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
