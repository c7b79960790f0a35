"""ImageLocality prefers nodes that hold what the pod will run."""

import pytest

from scheduler.api.images import normalized_image_name
from scheduler.api.objects import Container, ContainerImage
from scheduler.api.volume_sources import ImageVolumeSource, Volume
from scheduler.kernel.plugins.image_locality import ImageLocality
from scheduler.kernel.snapshot import NodeSet
from tests.support.builders import make_node, make_node_info, make_pod_info, make_snapshot
from tests.support.plugin_answers import score_answers

MIB = 1024 * 1024


def image(size_mib: int, *names: str) -> ContainerImage:
    return ContainerImage(names, size_mib * MIB)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("app", "app:latest", id="no tag"),
        pytest.param("app:1", "app:1", id="tag"),
        pytest.param("host:5000/app", "host:5000/app:latest", id="port but no tag"),
        pytest.param("host:5000/app:1", "host:5000/app:1", id="port and tag"),
        pytest.param("app@sha256:abc", "app@sha256:abc", id="digest"),
    ],
)
def test_names_without_tag_mean_latest(name: str, expected: str) -> None:
    """Nodes report names with tags or digests."""
    assert normalized_image_name(name) == expected


def test_an_image_counts_by_size_and_spread() -> None:
    """523 MiB on half of the nodes count 261.5 MiB: 24 points between 23 and 1000 MiB."""
    snapshot = make_snapshot([make_node("has", images=[image(523, "app:1")]), make_node("lacks")])

    assert score_answers(ImageLocality(), make_pod_info(image="app:1"), snapshot) == {
        "has": 24,
        "lacks": 0,
    }


@pytest.mark.parametrize(
    ("size_mib", "expected"),
    [
        pytest.param(23, 0, id="at most the lower bound"),
        pytest.param(33, 1, id="just above it"),
        pytest.param(1000, 100, id="the upper bound"),
        pytest.param(5000, 100, id="beyond it"),
    ],
)
def test_sizes_are_bounded(size_mib: int, expected: int) -> None:
    """Small images do not matter, huge ones not more than large ones."""
    snapshot = make_snapshot([make_node(images=[image(size_mib, "app:1")])])

    assert score_answers(ImageLocality(), make_pod_info(image="app:1"), snapshot) == {
        "node": expected
    }


def test_every_container_raises_the_scale_and_image_volumes_do_not() -> None:
    """Init containers, containers and volumes count with their images; volumes do not scale."""
    node = make_node(images=[image(500, "init:1"), image(700, "app:1"), image(300, "data:1")])
    pod = make_pod_info(
        image="app:1",
        init_containers=[Container(name="i", image="init:1")],
        volumes=[Volume("v", image=ImageVolumeSource("data:1")), Volume("w")],
    )

    scores = score_answers(ImageLocality(), pod, make_snapshot([node]))

    assert scores == {"node": 100 * (1500 - 23) // (2000 - 23)}


def test_an_image_used_twice_counts_twice() -> None:
    """Each container asks on its own."""
    containers = [Container(name=n, image="app:1") for n in ("a", "b")]
    snapshot = make_snapshot([make_node(images=[image(600, "app:1")])])

    scores = score_answers(ImageLocality(), make_pod_info(containers=containers), snapshot)

    assert scores == {"node": 100 * (1200 - 23) // (2000 - 23)}


def test_the_size_is_the_one_reported_first() -> None:
    """Nodes may disagree; the first to report an image settles its size for all."""
    nodes = [
        make_node("first", images=[image(500, "app:1", "app@sha256:0")]),
        make_node("second", images=[image(900, "app:1")]),
    ]

    scores = score_answers(ImageLocality(), make_pod_info(image="app:1"), make_snapshot(nodes))

    assert scores == dict.fromkeys(("first", "second"), 100 * (500 - 23) // (1000 - 23))


def test_more_nodes_dilute_an_image() -> None:
    """The share of nodes that hold it shrinks when one without it arrives."""
    snapshot = make_snapshot([make_node("a", images=[image(1000, "app:1")])])
    late = make_node("b")
    snapshot.update([NodeSet(make_node_info(late), late)])

    scores = score_answers(ImageLocality(), make_pod_info(image="app:1"), snapshot)

    assert scores == {"a": 100 * (500 - 23) // (1000 - 23), "b": 0}


def test_images_and_scale_are_signed() -> None:
    """A volume makes another class than a container with the same image."""
    sign = ImageLocality().sign
    volume = Volume("v", image=ImageVolumeSource("data:1"))
    by_volume = make_pod_info(image="app:1", volumes=[volume])
    by_container = make_pod_info(
        containers=[Container(name="a", image="app:1"), Container(name="b", image="data:1")]
    )

    assert sign(by_volume) != sign(by_container)
    assert sign(make_pod_info(image="app")) == sign(make_pod_info(image="app:latest"))
