"""Promise: the console shows why a pod is pending, and its advice works.

A browser opens the console, which reads a real API server or a running daemon.
"""

import re
import subprocess
import sys

import pytest
from playwright.sync_api import Page, expect

from e2e.conftest import StartStowage
from e2e.support.cluster import Cluster
from e2e.support.objects import make_node, make_pod
from e2e.support.rights import reader
from e2e.support.waiting import wait_for
from tests.browser.browsing import PATIENCE, browser, console


def advice(page: Page, url: str, pod: str) -> str:
    """Follow the links from the first page to the pod; return the suggested change."""
    page.goto(url)
    row = page.get_by_role("row").filter(has_text="node(s) were unschedulable")
    row.get_by_role("link", name=pod, exact=True).click()

    expect(page.locator("h1")).to_have_text(pod)
    expect(page.locator(".verdict")).to_contain_text("Fits nowhere: 0/2 nodes are available")
    found = page.locator(".help-list").get_by_text(re.compile("^Uncordon "))
    return found.inner_text()


def may_ask(source: list[str]) -> bool:
    """Report whether the daemon serves its state to the account."""
    words = [sys.executable, "-m", "scheduler", "what-if", *source, "--drain=small"]
    return subprocess.run(words, capture_output=True, timeout=180, check=False).returncode == 0


def shown(page: Page, url: str, pod: str) -> str:
    """Return the verdict on the pod's page."""
    page.goto(f"{url}/pod?pod={pod}")
    return page.locator(".verdict .say").inner_text()


@pytest.mark.parametrize("source", ["cluster", "daemon"])
def test_the_advice_of_a_page_brings_the_pod_to_a_node(
    cluster: Cluster, run_stowage: StartStowage, namespace: str, source: str
) -> None:
    """The page of the pod names the cordoned node; once uncordoned, the node gets the pod."""
    cluster.create_nodes(
        [
            make_node("small"),
            make_node("large", allocatable={"cpu": "16"}, unschedulable=True),
        ]
    )
    daemon = run_stowage(arguments=["--authorization-webhook-cache-unauthorized-ttl=0s"])
    cluster.create_pods([make_pod("train", namespace=namespace, requests={"cpu": "8"})])
    wait_for(lambda: cluster.scheduled_condition(namespace, "train"), "the pod to be tried")
    asked = [f"--kubeconfig={cluster.kubeconfig}"]
    if source == "daemon":
        debugger = reader(cluster, namespace, "debugger", "stowage-debug-reader")
        asked = [f"--kubeconfig={debugger}", f"--daemon={daemon.url}", "--insecure-skip-tls-verify"]
        wait_for(lambda: may_ask(asked), "the API server to know the new role")
    pod = f"{namespace}/train"

    with console(*asked) as url, browser() as opened:
        page = opened.new_page()
        page.set_default_timeout(PATIENCE)
        text = advice(page, url, pod)
    node = text.removeprefix("Uncordon ").partition(":")[0]
    cluster.run(cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}}))
    cluster.wait_until_bound(namespace)

    assert cluster.pod(namespace, "train")["spec"]["nodeName"] == node == "large"
    with console(*asked) as url, browser() as opened:
        page = opened.new_page()
        page.set_default_timeout(PATIENCE)
        assert shown(page, url, pod).startswith("Is on large.")
