"""Which registrations an event reaches."""

import pytest

from scheduler.kernel.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_UPDATE,
    FORCE_ACTIVATE,
    UNSCHEDULED_POD_ADD,
    ActionType,
    ClusterEvent,
    EventResource,
)

NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)


@pytest.mark.parametrize(
    ("resource", "action", "event", "expected"),
    [
        pytest.param("Node", ActionType.UPDATE_NODE_LABEL, NODE_LABEL, True, id="the same"),
        pytest.param("Node", ActionType.UPDATE, NODE_LABEL, True, id="one of many updates"),
        pytest.param("Node", ActionType.ADD, NODE_LABEL, False, id="another action"),
        pytest.param("Pod", ActionType.ALL, NODE_LABEL, False, id="another kind"),
        pytest.param("Pod", ActionType.ADD, ASSIGNED_POD_ADD, True, id="pods: assigned ones"),
        pytest.param("Pod", ActionType.ADD, UNSCHEDULED_POD_ADD, True, id="pods: waiting ones"),
        pytest.param(
            "Pod",
            ActionType.UPDATE_POD_LABEL | ActionType.ADD,
            ASSIGNED_POD_UPDATE,
            False,
            id="a general update is not known to be the one asked for",
        ),
        pytest.param(
            "Pod",
            ActionType.UPDATE | ActionType.ADD,
            ASSIGNED_POD_UPDATE,
            True,
            id="a general update reaches who asked for all updates",
        ),
        pytest.param("*", ActionType.ALL, NODE_LABEL, True, id="the wildcard asks for all"),
        pytest.param("*", ActionType.ALL, FORCE_ACTIVATE, True, id="wildcard to wildcard"),
        pytest.param("Pod", ActionType.ALL, FORCE_ACTIVATE, False, id="wildcard events are apart"),
    ],
)
def test_a_registration_covers_events(
    resource: str, action: ActionType, event: ClusterEvent, *, expected: bool
) -> None:
    """A registration covers an event of its kind all of whose actions it names."""
    registration = ClusterEvent(EventResource(resource), action)

    assert registration.covers(event) is expected
