"""The output that pages show under a command on files is what the command prints."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scheduler.testing import Manifest, node, pod
from scheduler.tools.cli.main import main

CHECKOUT = Path(__file__).parents[3]
NAMES = (
    "README.md",
    "docs/getting-started.md",
    "docs/devices.md",
    "docs/groups.md",
    "docs/what-if.md",
)
PAGES = [CHECKOUT / name for name in NAMES]
EXAMPLES = ("examples/getting-started/cluster.yaml", "examples/devices/", "examples/groups/")

DEPLOYED = CHECKOUT / "deploy" / "base" / "config.yaml"
"""The configuration that `stowage explain` finds in a cluster after an installation."""
GPU = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
BATCH = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}


def running(name: str, on: str, **requests: str) -> Manifest:
    return pod(name, namespace="shop", node=on, requests=requests)


def waiting(name: str, **requests: str) -> Manifest:
    return pod(name, namespace="shop", requests=requests)


EXPLAINED = {
    ("explain.md", "shop/web-0"): [
        node("n1", taints=[GPU]),
        node("n2", allocatable={"cpu": "2"}),
        *(waiting(f"web-{number}", cpu="3") for number in range(3)),
    ],
    ("explain.md", "shop/cache"): [
        *(node(f"worker-{number}", allocatable={"cpu": "8"}) for number in (1, 2, 3)),
        node("worker-4", taints=[BATCH]),
        running("cache", "worker-1", cpu="1", memory="1Gi"),
        running("large", "worker-2", cpu="4", memory="8Gi"),
        running("small", "worker-3", cpu="2", memory="1Gi"),
    ],
    ("explain.md", "shop/big"): [
        node("n1", taints=[GPU]),
        node("n2", allocatable={"cpu": "2"}),
        running("busy", "n2", cpu="1500m"),
        waiting("big", cpu="3"),
    ],
    ("operations.md", "default/db-2"): [
        *yaml.safe_load_all(Path(__file__).with_name("claims.yaml").read_text()),
    ],
    ("operations.md", "shop/web"): [
        node("worker-1"),
        node("worker-2", taints=[BATCH]),
        running("db", "worker-1", cpu="3"),
        pod("web", namespace="shop", requests={"cpu": "3"}, schedulerName="stowage"),
    ],
}
"""The clusters of the pods that pages explain without an example file."""


def shown(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command on an example file, with the lines of the `text` block after it."""
    pattern = r"```sh\n([^\n]+)\n```\n\n```text\n(.*?)```"
    for command, output in re.findall(pattern, page.read_text(), re.DOTALL):
        if any(example in command for example in EXAMPLES):
            yield command, [line for line in output.splitlines() if line.strip()]


CASES = [(page.name, *found) for page in PAGES for found in shown(page)]


def test_pages_show_output() -> None:
    """All pages have commands whose output is checked."""
    assert {page for page, _, _ in CASES} == {page.name for page in PAGES}


@pytest.mark.parametrize(("page", "command", "lines"), CASES)
def test_the_lines_are_printed_in_this_order(
    page: str, command: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may leave lines out; it may not change or invent one."""
    monkeypatch.chdir(CHECKOUT)
    result = CliRunner().invoke(main, command.split()[1:], prog_name="stowage")
    printed = iter(line.rstrip() for line in result.stdout.splitlines())

    assert result.exit_code == 0, (page, result.output)
    for line in lines:
        assert line in printed, f"{page}: `{command}` does not print: {line}"


@pytest.mark.parametrize(("page", "name"), EXPLAINED)
def test_explanations_are_printed(page: str, name: str, tmp_path: Path) -> None:
    """A page may leave lines out, which `...` marks within an answer."""
    text = (CHECKOUT / "docs" / page).read_text()
    [block] = re.findall(rf"^{name}  \(profile .*?(?=^```)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in block.splitlines() if line.strip() not in ("", "...")]

    options = ("--config", str(DEPLOYED)) if page == "operations.md" else ()
    printed = iter(explained(EXPLAINED[page, name], name, tmp_path, options))

    for line in lines:
        assert line in printed, f"{page}: `stowage explain {name}` does not print: {line}"


def explained(
    objects: Sequence[Manifest], name: str, directory: Path, options: Sequence[str]
) -> list[str]:
    """Return the page about a pod, of all pages if it is pending."""
    file = directory / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    is_pending = not any("nodeName" in each["spec"] for each in objects if _name(each) == name)
    words = ["explain", *(() if is_pending else (name,)), "-f", str(file), *options]
    result = CliRunner().invoke(main, words, prog_name="stowage")

    assert result.exit_code == 0, result.output
    return [line.rstrip() for line in result.stdout.splitlines()]


def _name(manifest: Manifest) -> str:
    return f"{manifest['metadata'].get('namespace', '')}/{manifest['metadata']['name']}"
