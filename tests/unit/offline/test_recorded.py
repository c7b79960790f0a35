"""A cluster as a recording leaves it."""

from collections.abc import Sequence

from scheduler.api.objects import Namespace, ObjectMeta, OwnerReference
from scheduler.api.workloads import Service, ServiceSpec
from scheduler.config.load import default_configuration
from scheduler.config.write import to_object
from scheduler.daemon.recording.records import Record, encode_answer
from scheduler.kernel.ends.times import text_of
from scheduler.kernel.engine.events import (
    BindFailed,
    Bound,
    Configure,
    Decide,
    Event,
    ObjectGone,
    ObjectSet,
)
from scheduler.kernel.engine.instructions import Bind, Configured, Instruction
from scheduler.tools.offline.recorded import cluster_of, recorded_profiles
from tests.support.builders import make_node, make_pod_info
from tests.support.recordings import make_header

CONFIGURATION = to_object(default_configuration("stowage"))
HEADER = make_header(configuration=CONFIGURATION)


def records(*events: Event | tuple[Event, Sequence[Instruction]]) -> list[Record]:
    pairs = [each if isinstance(each, tuple) else (each, ()) for each in events]
    return [
        Record(100.0 + number, event, encode_answer(answer))
        for number, (event, answer) in enumerate(pairs)
    ]


def nodes_of_pods(*events: Event | tuple[Event, Sequence[Instruction]]) -> dict[str, str]:
    objects = cluster_of(HEADER, records(*events)).read_for(recorded_profiles(HEADER))
    return {pod.name: pod.node_name for pod in objects.pods}


POD = make_pod_info("p", uid="u")
BIND = (Decide(), [Bind(3, "default", "p", "u", "n")])


def test_a_pod_that_was_sent_to_a_node_is_there() -> None:
    """Before the watch says so, and although nothing more is known of the request."""
    assert nodes_of_pods(ObjectSet("pods", POD), BIND) == {"p": "n"}
    assert nodes_of_pods(ObjectSet("pods", POD), BIND, Bound(3)) == {"p": "n"}


def test_a_pod_that_was_not_bound_waits_again() -> None:
    """Unless it is gone, or another one of its name is there."""
    failed = BindFailed(3, "why")
    gone = ObjectGone("pods", "default", "p", "u")
    heir = make_pod_info("p", uid="v")

    assert nodes_of_pods(ObjectSet("pods", POD), BIND, failed) == {"p": ""}
    assert nodes_of_pods(ObjectSet("pods", POD), BIND, gone, failed) == {}
    assert nodes_of_pods(ObjectSet("pods", POD), BIND, ObjectSet("pods", heir), failed) == {"p": ""}
    found = cluster_of(
        HEADER, records(ObjectSet("pods", POD), BIND, ObjectSet("pods", heir), failed)
    )
    assert found.objects["pods", "default", "p"] == heir


def test_a_pod_that_the_watch_has_shown_on_a_node_stays_there() -> None:
    """Another scheduler may have bound it, so that our own request is refused afterwards."""
    shown = ObjectSet("pods", make_pod_info("p", uid="u", node_name="m"))
    failed = BindFailed(3, "409 Conflict", is_certain=False)

    assert nodes_of_pods(ObjectSet("pods", POD), BIND, shown, failed) == {"p": "m"}


def test_a_pod_is_assumed_until_the_watch_has_shown_its_node() -> None:
    """The answer to the request may come later: kubectl describe node counts the pod already."""
    shown = ObjectSet("pods", make_pod_info("p", uid="u", node_name="n"))
    before = cluster_of(HEADER, records(ObjectSet("pods", POD), BIND))
    after = cluster_of(HEADER, records(ObjectSet("pods", POD), BIND, shown))

    assert [pod.name for pod in before.assumed] == ["p"]
    assert after.assumed == ()


def test_what_plugins_watch_is_there_and_nothing_else() -> None:
    """Nodes, namespaces and Services, each where commands look for it."""
    objects = cluster_of(
        HEADER,
        records(
            ObjectSet("nodes", make_node("b")),
            ObjectSet("nodes", make_node("a")),
            ObjectSet("namespaces", Namespace(ObjectMeta("default"))),
            ObjectSet("services", Service(ObjectMeta("s", "default"), ServiceSpec({"a": "b"}))),
            ObjectSet("widgets", {"metadata": {"name": "w"}}),
        ),
    ).read_for(recorded_profiles(HEADER))

    assert [node.metadata.name for node in objects.nodes] == ["a", "b"]
    assert len(objects.namespaces) == 1
    assert [kind.kind for kind, _ in objects.watched] == ["Service"]
    assert objects.warnings == []


def test_the_configuration_that_was_taken_over_counts() -> None:
    """Not one that was refused."""
    other = to_object(default_configuration("other"))
    refused = to_object(default_configuration("refused"))

    found = cluster_of(
        HEADER,
        records(
            (Configure(other), [Configured()]),
            (Configure(refused), [Configured("broken")]),
        ),
    )

    assert list(recorded_profiles(found.header).frameworks) == ["other"]


def test_runs_that_ended_are_known() -> None:
    """With the time of day at the end, so that what is asked then is answered for then."""
    owner = OwnerReference(kind="Job", name="j", uid="j", controller=True)
    began = text_of(HEADER.started - HEADER.clock)
    pods = [
        make_pod_info(f"p-{i}", node_name="n", start_time=began, owner_references=(owner,))
        for i in range(3)
    ]
    came = [ObjectSet("pods", pod) for pod in pods]
    went = [ObjectGone("pods", "default", pod.name, pod.uid) for pod in pods]
    cluster = cluster_of(HEADER, records(*came, *went)).read_for(recorded_profiles(HEADER))

    assert cluster.durations.of(pods[0]) == (105.0, 3)
    assert cluster.time == HEADER.started - HEADER.clock + 105.0
