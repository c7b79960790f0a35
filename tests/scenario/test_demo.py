"""The demo itself, small: two more processes, the real daemon, a real exit status."""

import subprocess
import sys


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scheduler", "demo", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_the_demo_keeps_its_promises() -> None:
    """It ends by itself with status 0, plain text, and a summary without complaints."""
    demo = run_demo("--nodes", "12", "--pods", "120")

    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "all 118 pods that fit have a node" in demo.stdout
    assert "pending giant: 0/" in demo.stdout
    assert "NOT" not in demo.stdout
    assert "\x1b" not in demo.stdout


def test_too_many_pods_for_the_nodes_are_refused() -> None:
    """One clear message instead of pods that wait for ever."""
    demo = run_demo("--nodes", "12", "--pods", "721")

    assert demo.returncode == 2
    assert "--pods 721: 12 nodes take at most 720 pods here, give more --nodes" in demo.stderr
