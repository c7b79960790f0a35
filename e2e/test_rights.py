"""Promise: the manifests grant the permissions that the daemon uses, no others; no log has a token.

The tests run last, since they read the requests and logs of all daemons. Daemons that tests deny
permissions run as another user.
"""

import re
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from e2e.conftest import EARLIER_AUDIT_EVENTS, left_out
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.rights import granted, has_deployed_rights, refused, unused, used

JSON_WEB_TOKEN: Final = re.compile(rb"eyJ[\w-]{8,}\.eyJ[\w-]{8,}")
"""Pattern of service account tokens."""
RUN_BESIDE: Final = frozenset(
    f"test_{name}.py"
    for name in (
        "bad_surroundings",
        "failed_bindings",
        "high_availability",
        "image",
        "operator",
        "pages",
        "permit",
        "preemption_with_kubelets",
        "shadow",
        "stalled_loop",
        "waiting_pods_are_woken",
        "waiting_promise",
    )
)
"""Files that `.ci/run` runs separately; all granted verbs are used without them."""


def test_the_whole_run_kept_to_the_deployed_rights(
    cluster: Cluster, own_cluster: ControlPlane, request: pytest.FixtureRequest
) -> None:
    """No request was forbidden; no granted verb was unused if all other files ran."""
    elsewhere = request.config.stash.get(EARLIER_AUDIT_EVENTS, [])
    seen = [e for e in (*cluster.audit_events(), *elsewhere) if has_deployed_rights(e)]
    if not seen:
        pytest.skip("no daemon ran before")

    assert refused(seen) == set()
    assert used(seen) <= granted()
    if all_others_are_in({item.path.name for item in request.session.items}):
        assert unused(seen) == set()


def all_others_are_in(ran: set[str]) -> bool:
    """Report whether all files are in a run but those that cannot be, and those of another run."""
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    return ran >= files - RUN_BESIDE - left_out()


def test_no_log_of_the_whole_run_holds_a_token(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The logs contain no token, even after errors and with verbose logging."""
    logs = list(tmp_path_factory.getbasetemp().rglob("*.log"))
    if not logs:
        pytest.skip("no daemon ran before")

    lines = chain.from_iterable(log.read_bytes().splitlines() for log in logs)
    assert [line for line in lines if JSON_WEB_TOKEN.search(line)] == []
