"""The benchmark of devices that change measures every kind of step."""

from bench.decisions.device_changes import Bench


def test_every_kind_of_step_is_timed() -> None:
    """Slices are taken over, pods with claims come and are decided about, seconds pass."""
    bench = Bench(nodes=20, waiting=2)
    bench.run(changed=2400, seconds=5)

    counts = {what: len(times) for what, times in bench.steps.items()}
    assert counts.pop("decisions") >= 3
    assert counts == {"slices": 25, "claims": 3, "pods": 3, "ticks": counts["ticks"]}
