"""Promise: the manifests grant what the daemon uses, and nothing more.

Comes last: it reads what all daemons of the run asked the API server for. Who is meant to be
refused is another user.
"""

from pathlib import Path

import pytest

from e2e.conftest import ASKED_ELSEWHERE
from e2e.support.cluster import Cluster
from e2e.support.controlplane import ControlPlane
from e2e.support.rights import granted, has_deployed_rights, refused, unused, used


def test_the_whole_run_kept_to_the_deployed_rights(
    cluster: Cluster, own_cluster: ControlPlane, request: pytest.FixtureRequest
) -> None:
    """No request was forbidden and, when every file ran, no granted verb was unused."""
    elsewhere = request.config.stash.get(ASKED_ELSEWHERE, [])
    seen = [e for e in (*cluster.audit_events(), *elsewhere) if has_deployed_rights(e)]
    if not seen:
        pytest.skip("no daemon ran before")

    assert refused(seen) == set()
    assert used(seen) <= granted()
    ran = {item.path for item in request.session.items}
    if ran >= set(Path(__file__).parent.glob("test_*.py")):
        assert unused(seen) == set()
