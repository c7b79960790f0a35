"""Which registrations an event reaches."""

from typing import Any

import pytest

from scheduler.kernel.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_UPDATE,
    FORCE_ACTIVATE,
    NODE_ADD,
    NODE_KIND,
    UNSCHEDULED_POD_ADD,
    ActionType,
    ClusterEvent,
    EventResource,
    ObjectKind,
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


def test_a_kind_stands_for_the_resource_of_its_events() -> None:
    """An author writes the kind that `WATCHES` has."""
    storage_class = ObjectKind("StorageClass", "storage.k8s.io/v1")

    assert ClusterEvent(NODE_KIND, ActionType.ADD) == NODE_ADD
    assert ClusterEvent(storage_class, ActionType.ADD).resource is EventResource.STORAGE_CLASS


@pytest.mark.parametrize(
    ("resource", "action", "message"),
    [
        (
            "Node",
            ActionType.ADD,
            "resource: expected an EventResource or an ObjectKind, got 'Node'",
        ),
        (EventResource.NODE, "ADD", "action: expected an ActionType, got 'ADD'"),
    ],
)
def test_an_event_of_other_types_is_refused(resource: Any, action: Any, message: str) -> None:
    """The message names the field and what was expected."""
    with pytest.raises(TypeError, match=message):
        ClusterEvent(resource, action)
