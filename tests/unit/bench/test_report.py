"""Reports: targets beside figures, a page people may add to, a picture that is one."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from bench import page
from bench.contestants import (
    FOLLOWING_WALL,
    FOLLOWING_WALL_WITH_EVENTS,
    KUBE_SCHEDULER,
    STOWAGE,
    WALL_WITH_EVENTS,
)
from bench.machine import Machine
from bench.plot import draw_throughput
from bench.results import Decision, Latency, Results, ResultsError, Throughput, load_results
from bench.tables import problems_of, tables_of
from bench.targets import Verdict, verdicts
from bench.workload import load_workloads

MACHINE = Machine(
    started="2025-01-02T03:04:05+00:00",
    commit="0123456789abcdef",
    cores=2,
    processor="Some processor",
    memory_bytes=2**34,
    system="Linux 6",
    python="3.11.7",
    kubernetes="v1.36.3",
    libraries={"numpy": "2.4"},
    load=0.1,
)


def test_targets_are_met_missed_or_not_measured() -> None:
    """Each target says what was wanted, what was measured, and whether that is enough."""
    results = Results(
        MACHINE,
        throughput=[
            _throughput(KUBE_SCHEDULER, 400.0),
            _throughput(STOWAGE, 700.0),
            _throughput(STOWAGE, 900.0),
            _throughput(STOWAGE, 1000.0),
            _throughput(WALL_WITH_EVENTS, 1500.0),
        ],
        latency=[
            _latency(p99_ms=30.0),
            _latency(p99_ms=21.0, contestant=FOLLOWING_WALL),
            _latency(p99_ms=60.0, contestant=FOLLOWING_WALL_WITH_EVENTS),
        ],
        decisions=[
            Decision(workload="plain", nodes=n, pods=6, decisions=9, median_us=us, p99_us=us)
            for n, us in ((5000, 24.0), (50000, 121.0))
        ],
    )

    found = {each.about: each for each in verdicts(results, load_workloads())}

    assert found["plain pods: pods/s to kube-scheduler's"][1:] == (
        "at least 2.5 x",
        "2.25 x",
        False,
    )
    assert found["plain pods: pods/s to wall-events"][1:] == ("at least 0.9 x", "0.60 x", False)
    assert found["hard spread by zone: pods/s to kube-scheduler's"] == Verdict(
        "hard spread by zone: pods/s to kube-scheduler's", "at least 6 x"
    )
    half = found["plain pods at half of maximum: p99 creation to bind, to wall-follow-events"]
    assert (half.measured, half.met) == ("0.5 x (1.43 x wall-follow's)", True)
    assert found["longest stall of the loop"].met is False
    assert found["plain pods: one decision of equal pods in a row, 5,000 nodes"].met is True
    assert found["plain pods: one decision, 50,000 nodes"].met is False
    assert found["memory with 50,000 nodes, 500,000 pods"].met is None


@pytest.mark.parametrize(
    ("wall", "measured", "met"),
    [
        pytest.param(210.0, "2.00 x (0.95 x wall-events's)", True, id="at the wall"),
        pytest.param(800.0, "2.00 x (0.25 x wall-events's)", False, id="far from it"),
    ],
)
def test_volumes_are_bound_four_times_as_fast_or_as_fast_as_anybody_could(
    wall: float, measured: str, met: bool
) -> None:
    """Twice as fast is enough only where the API server and the binder let nobody be faster."""
    speeds = ((KUBE_SCHEDULER, 100.0), (STOWAGE, 200.0), (WALL_WITH_EVENTS, wall))
    runs = [_throughput(who, speed, workload="made-volumes") for who, speed in speeds]
    title = load_workloads()["made-volumes"].title

    found = {each.about: each for each in verdicts(Results(MACHINE, runs), load_workloads())}

    assert found[f"{title}: pods/s to kube-scheduler's"][1:] == (
        "at least 4 x, or 0.9 x wall-events's",
        measured,
        met,
    )


def test_what_claims_cost_in_memory_is_a_difference() -> None:
    """Of the same cluster with and without them."""
    runs = [
        _throughput(STOWAGE, 100.0, workload=name, peak_memory_bytes=size * 10**6)
        for name, size in (("start-30000", 120), ("start-30000-claims", 400))
    ]

    found = {each.about: each for each in verdicts(Results(MACHINE, runs), load_workloads())}

    beyond = found["start-30000-claims: peak memory beyond start-30000"]
    assert (beyond.measured, beyond.met) == ("280 MB", True)


def test_other_sizes_do_not_count_for_targets() -> None:
    """A target about 5,000 nodes is not met with 500."""
    runs = [
        _throughput(KUBE_SCHEDULER, 400.0, size="500"),
        _throughput(STOWAGE, 1000.0, size="500"),
    ]

    found = verdicts(Results(MACHINE, throughput=runs), load_workloads())

    assert {each.met for each in found} == {None}


def test_results_are_kept_and_read_again(tmp_path: Path) -> None:
    """Nothing is lost on the way through a file; another file is refused by name."""
    results = Results(MACHINE, [_throughput(STOWAGE, 1.0, note="slow")], [_latency()])
    results.save(tmp_path / "deep" / "results.json")
    (tmp_path / "other.json").write_text('{"machine": 3}')

    assert load_results(tmp_path / "deep" / "results.json") == results
    with pytest.raises(ResultsError, match=r"other\.json"):
        load_results(tmp_path / "other.json")


def test_the_page_keeps_what_people_wrote(tmp_path: Path) -> None:
    """Only what lies between the marks is replaced, again and again."""
    kept = tmp_path / "results.json"
    Results(MACHINE, [_throughput(STOWAGE, 321.0)]).save(kept)
    target = tmp_path / "performance.md"
    made = _make_page(target, kept)
    target.write_text(made.replace("# Performance", "# Performance\n\nWritten by hand."))

    again = _make_page(target, kept)

    assert "| plain | stowage | 5000 | 1 | 10000 | 10000 | 321 |" in again
    assert "Written by hand." in again
    assert again.count("### Targets") == 1
    assert again == _make_page(target, kept)


def test_a_later_file_replaces_what_it_measured_anew(tmp_path: Path) -> None:
    """And only that; the page says so."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    Results(MACHINE, [_throughput(STOWAGE, 321.0)], [_latency()]).save(old)
    Results(MACHINE, [_throughput(STOWAGE, 654.0)]).save(new)

    made = _make_page(tmp_path / "performance.md", old, new)

    assert "| plain | stowage | 5000 | 1 | 10000 | 10000 | 654 |" in made
    assert "321" not in made
    assert "Pods that come" in made
    assert made.count("It replaces the figures of plain.") == 1


def test_a_target_stands_beside_what_others_reached() -> None:
    """Absolute figures say little without those of the same machine."""
    runs = [_throughput(KUBE_SCHEDULER, 400.0), _throughput(STOWAGE, 900.0)]
    waits = [
        _latency(p99_ms=900.0, half=False),
        _latency(p99_ms=800.0, half=False, contestant=KUBE_SCHEDULER),
    ]

    found = {
        each.about: each.measured
        for each in verdicts(Results(MACHINE, runs, waits), load_workloads())
    }

    assert found["plain pods: CPU per pod once ready"] == "0.4 ms (kube-scheduler: 0.4 ms)"
    assert found["plain pods at 150/s: p99 creation to bind"] == "900 ms (kube-scheduler: 800 ms)"


def test_repeated_runs_become_one_line() -> None:
    """The median of the repeats, the worst of their peaks, and the ratio to kube-scheduler."""
    runs = [_throughput(STOWAGE, speed) for speed in (100.0, 300.0, 200.0)]
    results = Results(MACHINE, [_throughput(KUBE_SCHEDULER, 50.0), *runs])

    (table,) = tables_of(results)

    assert [row[2:9] for row in table.rows] == [
        ["5000", "1", "10000", "10000", "50", "50", ""],
        ["5000", "3", "10000", "10000", "200 (100..300)", "200 (100..300)", "4.00"],
    ]


def test_decisions_stand_beside_the_whole_of_what_a_pod_costs() -> None:
    """By the number of nodes; a size that was not measured is left empty."""
    decisions = [
        Decision(workload=name, nodes=n, pods=6, decisions=9, median_us=us, p99_us=9.0, rest_us=3.0)
        for name, n, us in (("plain", 500, 2.0), ("plain", 5000, 4.0), ("one-device", 5000, 20.0))
    ]

    decided, whole = tables_of(Results(MACHINE, decisions=decisions))

    assert decided.columns == ["workload", "500 nodes", "5000 nodes", "growth 500 to 5000"]
    assert decided.rows == [["plain", "2 (9)", "4 (9)", "2.0"], ["one-device", "", "20 (9)", ""]]
    assert whole.columns == ["workload", "500 nodes", "5000 nodes"]
    assert whole.rows == [["plain", "5", "7"], ["one-device", "", "23"]]


def test_what_is_missed_stands_first_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before everything else on the page; a miss nobody can explain says so."""
    reasons = tmp_path / "reasons.yaml"
    reasons.write_text("'plain pods: pods/s to kube-scheduler''s': It is tired.")
    monkeypatch.setattr(page, "REASONS", reasons)
    kept = tmp_path / "results.json"
    runs = [_throughput(KUBE_SCHEDULER, 400.0), _throughput(STOWAGE, 700.0)]
    Results(MACHINE, [*runs, _throughput(WALL_WITH_EVENTS, 900.0)]).save(kept)

    made = _make_page(tmp_path / "performance.md", kept)

    first = "- **plain pods: pods/s to wall-events**: 0.78 x, wanted at least 0.9 x. No reason is"
    assert made.index(first) < made.index("wanted at least 2.5 x. It is tired.")
    assert made.index("It is tired.") < made.index("### Targets")


def test_what_went_wrong_is_told() -> None:
    """Wrong placements and runs that were cut short do not hide among figures."""
    run = _throughput(STOWAGE, 1.0, violations=("node a is full",), note="no bind for 60 s")

    assert list(problems_of(Results(MACHINE, [run]))) == [
        "plain, size 5000, stowage: no bind for 60 s",
        "plain, size 5000, stowage: node a is full",
        "plain, size 5000, stowage: refused with status 409: 1 bindings",
    ]


def test_the_picture_is_svg_with_a_bar_per_figure() -> None:
    """Bars are as long as their figures are great."""
    runs = [_throughput(KUBE_SCHEDULER, 250.0), _throughput(STOWAGE, 1000.0)]

    root = ET.fromstring(  # noqa: S314 -- our own text
        draw_throughput(runs, {"plain": "plain & simple"})
    )

    bars = [
        float(each.get("width", "0"))
        for each in root.iter("{http://www.w3.org/2000/svg}rect")
        if each.get("height") == "8"
    ]
    assert bars[1] == pytest.approx(4 * bars[0], abs=0.5)
    assert "plain & simple" in [each.text for each in root]


def _make_page(target: Path, *kept: Path) -> str:
    done = CliRunner().invoke(page.main, ["--page", str(target), *map(str, kept)])
    assert done.exit_code == 0, done.output
    assert target.with_suffix(".svg").exists()
    return target.read_text()


def _throughput(
    contestant: str,
    pods_per_second: float,
    *,
    workload: str = "plain",
    size: str = "5000",
    peak_memory_bytes: int = 100,
    violations: tuple[str, ...] = (),
    note: str = "",
) -> Throughput:
    return Throughput(
        workload=workload,
        size=size,
        contestant=contestant,
        nodes=5000,
        running=1000,
        pods=10000,
        bound=10000,
        refused={409: 1} if note else {},
        pods_per_second=pods_per_second,
        pods_per_second_middle=pods_per_second,
        binds_per_second=pods_per_second,
        first_bind_seconds=1.0,
        cpu_ms_per_pod=0.5,
        cpu_ms_per_pod_ready=0.4,
        peak_memory_bytes=peak_memory_bytes,
        events=10000,
        server_cpu_ms_per_pod=1.0,
        foreign_share=0.0,
        violations=violations,
        note=note,
    )


def _latency(p99_ms: float = 10.0, contestant: str = STOWAGE, *, half: bool = True) -> Latency:
    return Latency(
        workload="plain",
        size="5000",
        contestant=contestant,
        half=half,
        offered_per_second=100.0,
        created=100,
        bound=100,
        p50_ms=1.0,
        p99_ms=p99_ms,
        longest_ms=50.0,
        cpu_ms_per_pod=0.5,
        foreign_share=0.0,
        loop_stall_ms=32.0,
    )
