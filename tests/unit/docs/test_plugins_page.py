"""docs/plugins.md leads where it says: every command is run, every piece of code is real."""

import json
import re
import shutil
import tomllib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.support.plugins import install_package
from scheduler.kernel.framework.handle import Handle
from scheduler.kernel.framework.services import HeldPods
from scheduler.operator.packages import Wheel, WheelPlace, wheel_in
from scheduler.testing import Cluster
from tests.support.environment import CHECKOUT, Environment
from tests.support.pages import blocks

PAGE = CHECKOUT / "docs" / "plugins.md"
POLICIES = CHECKOUT / "docs" / "policy-tests.md"
EXAMPLES = sorted((CHECKOUT / "examples" / "plugins").iterdir())
NAMES = [example.name for example in EXAMPLES]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def walked(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of the first block, one after the other; the folder that they end in."""
    directory = tmp_path_factory.mktemp("walk")
    for line in blocks(PAGE, "sh")[0].splitlines():
        if line.startswith("cd "):
            directory /= line.removeprefix("cd ")
        else:
            environment.succeed(line, directory)
    return directory


def test_the_walk_ends_in_a_plugin_that_decides(environment: Environment, walked: Path) -> None:
    """Found by its entry point, with its weight and its arguments; as the page says."""
    explain = blocks(PAGE, "sh")[0].splitlines()[-1]

    answer = json.loads(environment.succeed(f"{explain} -o json", walked))

    nodes = {found["node"]: found for found in answer["pods"][0]["nodes"]}
    assert nodes["never"]["plugin"] == "MyRacks"
    assert nodes["never"]["reasons"] == ["node(s) were labelled never"]
    assert nodes["any"]["scores"]["MyRacks"] == {"normalized": 100, "weighted": 500}
    assert nodes["last"]["scores"]["MyRacks"] == {"normalized": 0, "weighted": 0}


def test_what_is_misspelt_has_its_line(environment: Environment, walked: Path) -> None:
    """In the arguments of a plugin that Stowage does not know."""
    file = walked / "wrong.yaml"
    text = (walked / "deploy" / "config.yaml").read_text()
    file.write_text(text.replace("label:", "lable:"))
    line = next(i for i, t in enumerate(file.read_text().splitlines(), 1) if "lable:" in t)

    done = environment.run("stowage config wrong.yaml", walked)

    assert done.returncode == 2
    assert done.stderr == (
        f"wrong.yaml: line {line}: profiles[0].pluginConfig[0].args.lable: "
        'unknown field; did you mean "label"?\n'
    )


def test_the_effective_configuration_has_the_arguments(
    environment: Environment, walked: Path
) -> None:
    """Those that nobody wrote as well; what is printed can be read back."""
    file = walked / "short.yaml"
    text = (walked / "deploy" / "config.yaml").read_text()
    file.write_text(text.partition("    pluginConfig:")[0])

    printed = environment.succeed("stowage config short.yaml", walked)

    [profile] = yaml.safe_load(printed)["profiles"]
    told = {each["name"]: each["args"] for each in profile["pluginConfig"]}
    assert told["MyRacks"] == {"label": "example.com/my-racks"}
    file.write_text(printed)
    assert environment.succeed("stowage config short.yaml", walked) == printed


def test_what_is_written_is_clean(environment: Environment, walked: Path) -> None:
    """By the same rules as Stowage's own code."""
    rules = f"--config={CHECKOUT / 'pyproject.toml'}"
    less = "--ignore=ARG002,D102,D103,I001,INP001,S101"

    environment.succeed(f"python -m ruff check --no-cache {rules} {less} .", walked)
    environment.succeed(f"python -m ruff format --no-cache --check {rules} .", walked)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """All examples, announced as their packages install_package them, without an installer."""
    environment = Environment(tmp_path_factory.mktemp("with-examples"))
    [packages] = environment.folder.glob("lib/python*/site-packages")
    for example in EXAMPLES:
        install_package(example, packages)
    return environment


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_the_configuration_of_an_example_is_right(installed: Environment, example: Path) -> None:
    """It names the plugin as the package announces it, and its arguments are read."""
    printed = yaml.safe_load(installed.succeed("stowage config deploy/config.yaml", example))

    name = "".join(part.capitalize() for part in example.name.split("-"))
    [profile] = printed["profiles"]
    assert name in {each["name"] for each in profile["plugins"]["multiPoint"]["enabled"]}
    assert {each["name"]: each["args"] for each in profile["pluginConfig"]}[name]


def test_the_message_that_is_shown(installed: Environment, tmp_path: Path) -> None:
    """About a number out of its range."""
    [shown] = [block for block in blocks(PAGE, "") if "expected 1 or more" in block]
    text = (CHECKOUT / "examples/plugins/pack-gpus/deploy/config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(text.replace("largestHole: 8", "largestHole: 0"))

    done = installed.run("stowage config config.yaml", tmp_path)

    assert re.sub(r"line \d+", "line N", done.stderr) == re.sub(r"line \d+", "line N", shown)


@pytest.mark.parametrize("page", [PAGE, POLICIES], ids=lambda page: page.name)
def test_code_that_is_shown_is_that_of_the_examples(page: Path) -> None:
    """Each block that names a file is a piece of it."""
    named = [b for b in blocks(page, "python") if b.startswith("# examples/")]
    for block in named:
        first, _, rest = block.partition("\n")
        assert rest in (CHECKOUT / first.removeprefix("# ")).read_text(), first

    assert named


def test_the_pre_bind_plugin_that_is_shown_passes_its_test() -> None:
    """The whole block is a module; a plugin's author copies it."""
    [shown] = [block for block in blocks(POLICIES, "python") if "PreBindPlugin" in block]
    module: dict[str, Any] = {}

    exec(shown, module)  # noqa: S102 - the page's own code

    module["test_the_node_is_announced"](Cluster())


def test_images_are_made_from_what_there_is() -> None:
    """By the Python of Stowage's image; the entry point of that image finds the plugin."""
    base = (CHECKOUT / "Dockerfile").read_text()
    [tag] = re.findall(r"^ARG BASE=python:(\S+)$", base, re.MULTILINE)
    for example in EXAMPLES:
        text = (example / "Dockerfile").read_text()
        assert f"ARG PYTHON=python:{tag}\n" in text
        assert "ENV PYTHONPATH=/plugins\n" in text
        for line in re.findall(r"^COPY (?!--from)(.*) \./$", text, re.MULTILINE):
            assert all((example / name).exists() for name in line.split())
        [install] = re.findall(r"^RUN (pip install .*)$", text, re.MULTILINE)
        assert "--no-deps --target /plugins" in install


def test_what_the_image_does(environment: Environment, walked: Path, tmp_path: Path) -> None:
    """The steps of the Dockerfile, without docker: installed elsewhere, found by PYTHONPATH."""
    text = (walked / "Dockerfile").read_text()
    [install] = re.findall(r"^RUN (pip install .*) \.$", text, re.MULTILINE)
    [copied] = re.findall(r"^COPY (?!--from)(.*) \./$", text, re.MULTILINE)
    source, plugins = tmp_path / "src", tmp_path / "plugins"
    source.mkdir()
    for name in copied.split():
        shutil.copy(walked / name, source)
    image = Environment(tmp_path / "image")

    command = install.replace("/plugins", str(plugins))
    environment.succeed(f"{command} .", source)
    done = image.run(
        f"stowage config {walked / 'deploy' / 'config.yaml'}",
        tmp_path,
        {"PYTHONPATH": str(plugins)},
    )

    assert done.returncode == 0, done.stderr
    assert "name: MyRacks" in done.stdout


def test_a_wheel_is_found_as_it_is(environment: Environment, walked: Path, tmp_path: Path) -> None:
    """Under the name that a ConfigMap gives it; the operator reads in it what the daemon finds."""
    [build] = blocks(PAGE, "sh")[1].splitlines()
    source = shutil.copytree(walked, tmp_path / "source")
    environment.succeed(build, source)
    [wheel] = (source / "dist").glob("*.whl")
    mounted = shutil.copy(wheel, tmp_path / "plugin.whl")
    image = Environment(tmp_path / "image")

    done = image.run(
        f"stowage config {walked / 'deploy' / 'config.yaml'}", tmp_path, {"PYTHONPATH": mounted}
    )
    held = {"binaryData": {"plugin.whl": b64encode(wheel.read_bytes()).decode()}}
    read = wheel_in(held, WheelPlace("stowage", "stowage-plugin", "plugin.whl"))

    assert done.returncode == 0, done.stderr
    assert "name: MyRacks" in done.stdout
    assert isinstance(read, Wheel)
    assert read.provides == ("MyRacks",)


def test_policies_are_tested_as_the_page_says() -> None:
    """The folder that is named is among those that `make test` runs."""
    [block] = blocks(POLICIES, "sh")
    [command] = [line for line in block.splitlines() if line.startswith("python ")]
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["pytest"]

    folder = command.removeprefix("python -m pytest ")
    assert list((CHECKOUT / folder).rglob("test_*.py"))
    assert folder.split("/")[0] in settings["testpaths"]


def test_every_member_of_the_handle_is_described() -> None:
    """In the table, and no member elsewhere that does not exist."""
    text = PAGE.read_text()
    table = text.partition("## What a plugin can ask")[2].partition("\n`await")[0]
    named = "".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE))
    described = set(re.findall(r"`(\w+)[(`]", named))
    members = {name for name in vars(Handle) if not name.startswith("_")}
    [on_a_fork] = re.findall(r"On a fork (.*?) even there", text)

    assert described == members
    assert set(re.findall(r"`(\w+)`", on_a_fork)) <= members | set(vars(HeldPods))
