"""What the pages tell people to type, and where that is run.

`e2e/test_pages.py` runs every command of a page in a scratch copy of the checkout, in the order of
the page, but for those that match an entry of `NOT_RUN_THERE`.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = Path(__file__).parents[2]
PAGES: Final = [
    CHECKOUT / "README.md",
    CHECKOUT / "CONTRIBUTING.md",
    *sorted((CHECKOUT / "docs").glob("*.md")),
    *sorted((CHECKOUT / "examples").rglob("README.md")),
]

NOT_RUN_THERE: Final[Mapping[str, str]] = {
    r"make (test|check|e2e)": "it runs this test, or is run beside it by .ci/run",
    r"make e2e HARNESS=nodes": ".ci/run runs it",
    r"make kind": "there is no docker in CI; tests/unit/test_makefile.py runs its commands",
    r"make install": "without it nothing of this would run",
    r"make demo": "tests/unit/test_makefile.py and tests/scenario/test_demo.py run its two steps",
    r"make docs": "writes into the checkout; tests/unit/docs hold the result against the code",
    r"make (parity|mutants|chaos|soak|bench)": "minutes to hours; their parts have tests",
    r"make (image-push|dist|audit).*": "docker, a tag, a package index; the parts of a release are "
    "made by tests/unit/test_distributions.py, tests/unit/test_kubectl_plugin.py, e2e/test_helm.py",
    r"make site": ".ci/run makes it",
    r"python -m bench\.soak.*": "minutes to hours; tests/unit/bench",
    r"python -m e2e\.chaos( --seed| --only| --scheduler).*": "minutes to hours; e2e/test_chaos.py",
    r"make image( .*)?": "there is no docker in CI; e2e/test_image.py plays the Dockerfile's steps",
    r"stowage shadow.*": "watches until it is told to stop; e2e/test_shadow.py runs it",
    r"stowage run --decisions - \| vector": "not ours; tests/scenario/test_decisions.py",
    r"kubectl (-n scheduling|apply -f main\.yaml).*": "e2e/test_operator.py, with the objects of "
    "the page",
    r"stowage (what-if|capacity) --recording.*": "tests/scenario/test_what_if_of_daemons.py",
    r"stowage (what-if|capacity) --daemon.*": "as somebody the daemon knows: e2e/test_what_if.py, "
    "tests/scenario/test_what_if_of_daemons.py with its authority",
    r"stowage replay DIR .*(--at|--config|--plugin).*": "tests/scenario/test_replaying.py runs "
    "each, with a recording that has something to tell",
    r"stowage sweep .*": "tests/scenario/test_sweep.py, with a recording and a grid",
    r"python -m dask .*": "not ours; tests/scenario/test_sweep.py has a cluster of Dask",
    r"pip install '\.\[sweep.*": "the extras are in requirements-dev.lock, as tests need them",
    r"docker .*": "there is no docker in CI; e2e/test_image.py plays the steps of the Dockerfile, "
    "tests/unit/docs/test_plugins_page.py those of a plugin's",
    r"kubectl .*port-forward.*": "no kubelet runs the container; the daemon's own port is asked",
    r"kubectl .*rollout status.*": "no image can be pulled; e2e/test_first_hour.py runs it",
    r".*_STOWAGE_COMPLETE=(zsh|fish)_source.*": "of another shell; e2e/test_completion.py runs it",
    r"kubectl create clusterrole.* stowage-taint-rules .*": "the API server has no "
    "such rules without its gate; tests/unit/devices/test_taint_rules.py",
    r"git (tag|push).*": "releases are not made by a test",
    r"pip download.*": "all wheels of the lock, once more; e2e/test_image.py installs them",
}
"""Patterns of whole commands, with the reason."""


class Shown(NamedTuple):
    """A command as a page shows it."""

    line: int
    command: str


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def files(page: Path) -> Iterator[tuple[str, str]]:
    """The files of a checkout that a page has its reader write: path and text.

    Their YAML begins with a comment that is the path.
    """
    for text in blocks(page, "yaml"):
        if found := re.match(r"# (deploy/[\w./-]+)\n", text):
            yield found[1], text


def shown(page: Path) -> Iterator[Shown]:
    """The commands of a page: lines of `sh` blocks, and those after `$ ` of `console` blocks."""
    text = page.read_text()
    pattern = r"^( *)```(sh|console)\n(.*?)^ *```$"
    for found in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        first = text.count("\n", 0, found.start(3)) + 1
        body = textwrap.dedent(found[3]).replace("\\\n", "\0")
        line = first
        for written in body.splitlines():
            prompt = "$ " if found[2] == "console" else ""
            if written.strip() and written.startswith(prompt):
                whole = written.removeprefix(prompt).replace("\0", " ")
                command = re.sub(r"\s+#\s.*$", "", whole).strip()
                if command and not command.startswith("#"):
                    yield Shown(line, command)
            line += 1 + written.count("\0")


def why_not_run(command: str) -> str:
    """The reason for which a command is left out; empty for those that are run."""
    reasons = (why for pattern, why in NOT_RUN_THERE.items() if re.fullmatch(pattern, command))
    return next(reasons, "")
