"""The official Python client against the sandbox."""

import asyncio
from collections.abc import Callable

import pytest
from kubernetes import client as kube, config, watch

from scheduler.sandbox import Sandbox
from tests.unit.sandbox.support import binding, node, pod


def with_client(story: Callable[[Sandbox, kube.ApiClient], None]) -> None:
    """Runs a story that blocks in a thread, beside a sandbox."""

    async def play() -> None:
        async with await Sandbox.start() as sandbox:
            api = config.new_client_from_config_dict(sandbox.kubeconfig())
            try:
                await asyncio.to_thread(story, sandbox, api)
            finally:
                api.close()

    asyncio.run(play())


def test_typed_objects_make_the_round_trip() -> None:
    """Models are created, read, listed, patched and deleted."""

    def story(_sandbox: Sandbox, api: kube.ApiClient) -> None:
        core = kube.CoreV1Api(api)
        created = core.create_namespaced_pod("default", pod("p"))
        core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
        listed = core.list_namespaced_pod("default", label_selector="a=b")

        assert created.spec.scheduler_name == "default-scheduler"
        assert [item.metadata.name for item in listed.items] == ["p"]
        core.delete_namespaced_pod("p", "default")
        with pytest.raises(kube.ApiException) as missing:
            core.read_namespaced_pod("p", "default")
        assert missing.value.status == 404

    with_client(story)


def test_a_pod_is_bound_with_raw_answers() -> None:
    """The binding call works as the daemon uses it; binding twice is a conflict."""

    def story(_sandbox: Sandbox, api: kube.ApiClient) -> None:
        core = kube.CoreV1Api(api)
        core.create_node(node("n"))
        core.create_namespaced_pod("default", pod("p"))

        core.create_namespaced_pod_binding(
            "p", "default", binding("p", "n"), _preload_content=False
        )

        assert core.read_namespaced_pod("p", "default").spec.node_name == "n"
        with pytest.raises(kube.ApiException) as refused:
            core.create_namespaced_pod_binding(
                "p", "default", binding("p", "n"), _preload_content=False
            )
        assert refused.value.status == 409

    with_client(story)


def test_the_watch_of_the_client_works() -> None:
    """Its watch sees objects that are there and ends with its timeout."""

    def story(_sandbox: Sandbox, api: kube.ApiClient) -> None:
        core = kube.CoreV1Api(api)
        core.create_node(node("n"))

        events = list(watch.Watch().stream(core.list_node, timeout_seconds=1))

        assert [(event["type"], event["object"].metadata.name) for event in events] == [
            ("ADDED", "n")
        ]

    with_client(story)
