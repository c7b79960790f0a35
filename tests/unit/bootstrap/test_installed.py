"""Installed plugins: one that is broken stops what uses it, and nothing else."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.tools.cli.main import main

_GOOD = """
from scheduler.plugin import SUCCESS, NodeFilterPlugin

class Racks(NodeFilterPlugin):
    NAME = "ListedRacks"
    def __init__(self, args, handle): pass
    def filter(self, state, pod, node): return SUCCESS
"""
_OLD = "raise RuntimeError('made for another version')\n"
_BARE = "class Bare: ARGS = None\n"
_PLUGINS = {
    "ListedRacks": "listed_racks:Racks",
    "Old": "listed_old:Old",
    "Bare": "listed_bare:Bare",
}
_WHY_OLD = (
    'plugin "Old" (listed_old:Old) cannot be imported: RuntimeError: made for another version'
)
_WHY_BARE = 'plugin "Bare" (Bare): it runs at no extension point'

_DECLARED_NAMES = ("Other", "Nameless", "OneKind", "NoPlural", "NoReads")

CLUSTER = "{apiVersion: v1, kind: Node, metadata: {name: n}}"


def config_with(field: str) -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  {field}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One package that is installed, with a plugin that is right and two that are not."""
    for module, text in (("racks", _GOOD), ("old", _OLD), ("bare", _BARE)):
        (tmp_path / f"listed_{module}.py").write_text(text)
    info = tmp_path / "listed-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: listed\nVersion: 1.2\n")
    entries = "".join(f"{name} = {place}\n" for name, place in _PLUGINS.items())
    (info / "entry_points.txt").write_text(f"[stowage.plugins]\n{entries}")
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    monkeypatch.syspath_prepend(tmp_path)
    for place in _PLUGINS.values():
        monkeypatch.delitem(sys.modules, place.partition(":")[0], raising=False)
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words, prog_name="stowage")


def imported() -> set[str]:
    return {place.partition(":")[0] for place in _PLUGINS.values()} & sys.modules.keys()


@pytest.mark.parametrize(
    "field",
    [
        "plugins: {}",
        "plugins: {filter: {disabled: [{name: Old}]}}",
        "plugins: {multiPoint: {enabled: [{name: ListedRacks}]}}",
    ],
)
def test_what_is_not_used_stops_nothing(folder: Path, field: str) -> None:
    """Only what a configuration enables is imported."""
    (folder / "config.yaml").write_text(config_with(field))
    config, cluster = str(folder / "config.yaml"), str(folder / "cluster.yaml")

    results = [
        call("config"),
        call("config", config),
        call("simulate", cluster),
        call("simulate", cluster, "--config", config),
        call("run", "--config", config, "--write-config-to", str(folder / "written.yaml")),
    ]

    assert [(each.exit_code, each.stderr) for each in results] == [(0, "")] * len(results)
    assert imported() == ({"listed_racks"} if "ListedRacks" in field else set())


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (
            "plugins: {filter: {enabled: [{name: Old}]}}",
            f"line 6: profiles[0].plugins.filter.enabled[0].name: {_WHY_OLD}",
        ),
        (
            "plugins: {multiPoint: {enabled: [{name: ListedRacks}, {name: Old}]}}",
            f"line 6: profiles[0].plugins.multiPoint.enabled[1].name: {_WHY_OLD}",
        ),
        (
            "pluginConfig: [{name: Old, args: {}}]",
            f"line 6: profiles[0].pluginConfig[0].name: {_WHY_OLD}",
        ),
        (
            "plugins: {score: {enabled: [{name: Bare}]}}",
            f"line 6: profiles[0].plugins.score.enabled[0].name: {_WHY_BARE}",
        ),
    ],
)
def test_what_is_used_and_broken_is_one_message(folder: Path, field: str, expected: str) -> None:
    """With the place of the name, from each command that reads the configuration."""
    config, cluster = str(folder / "config.yaml"), str(folder / "cluster.yaml")
    Path(config).write_text(config_with(field))

    results = [
        call("config", config),
        call("simulate", cluster, "--config", config),
        call("run", "--config", config),
    ]

    assert [each.exit_code for each in results] == [2, 2, 2]
    for result in results:
        assert expected in result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("folder")
def test_a_misspelt_name_is_found_without_importing() -> None:
    """Names are known beforehand."""
    result = CliRunner().invoke(
        main,
        ["config", "-"],
        input=config_with("plugins: {filter: {enabled: [{name: ListedRack}]}}"),
    )

    assert 'there is no plugin "ListedRack"; did you mean "ListedRacks"?' in result.stderr
    assert imported() == set()


@pytest.mark.usefixtures("folder")
def test_installed_plugins_are_listed() -> None:
    """With package, extension points, and what is wrong."""
    result = call("plugin", "list")

    assert result.exit_code == 0
    found = {line.split()[0]: " ".join(line.split()) for line in result.stdout.splitlines()}
    assert found["ListedRacks"] == "ListedRacks listed 1.2 filter"
    assert found["Old"] == f"Old listed 1.2 {_WHY_OLD}"
    assert found["Bare"].startswith(f"Bare listed 1.2 {_WHY_BARE}")


_DECLARED = """
from scheduler.plugin import SUCCESS, NODE_KIND, NodeFilterPlugin, ObjectKind, ScorePlugin

class Other(NodeFilterPlugin):
    NAME = "OtherName"
    def filter(self, state, pod, node): return SUCCESS

class Nameless(NodeFilterPlugin):
    def filter(self, state, pod, node): return SUCCESS

class OneKind(Nameless):
    NAME, WATCHES = "OneKind", NODE_KIND

class NoPlural(Nameless):
    NAME, WATCHES = "NoPlural", (ObjectKind("ConfigMap"),)

class NoReads(ScorePlugin):
    NAME = "NoReads"
    def score(self, state, pod, snapshot, rows): ...
"""


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        ("Other", "NAME: expected 'Other', as in its entry point, got 'OtherName'"),
        ("Nameless", "NAME: expected 'Nameless', as in its entry point, got None"),
        ("OneKind", "WATCHES: expected a tuple of ObjectKind, got ObjectKind(kind='Node'"),
        ("NoPlural", "WATCHES: ConfigMap (v1): the plural must be declared"),
        ("NoReads", "READS: expected what its columns depend on, such as Reads.CLUSTER"),
        ("Exits", "(listed_exits:Exits) cannot be imported: SystemExit: no licence"),
    ],
)
def test_a_wrong_declaration_is_one_message(folder: Path, plugin: str, expected: str) -> None:
    """With the place of the name; the list of the others is shown all the same."""
    announce(folder, "declared", **dict.fromkeys(_DECLARED_NAMES, "listed_declared"))
    announce(folder, "exits", Exits="listed_exits")
    (folder / "listed_declared.py").write_text(_DECLARED)
    (folder / "listed_exits.py").write_text("raise SystemExit('no licence')\n")
    config = folder / "config.yaml"
    config.write_text(config_with(f"plugins: {{multiPoint: {{enabled: [{{name: {plugin}}}]}}}}"))

    result = call("simulate", str(folder / "cluster.yaml"), "--config", str(config))

    assert result.exit_code == 2
    where = "config.yaml: line 6: profiles[0].plugins.multiPoint.enabled[0].name: "
    assert f'{where}plugin "{plugin}"' in result.stderr
    assert expected in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "ListedRacks" in call("plugin", "list").stdout


def test_a_name_in_two_packages_is_refused(folder: Path) -> None:
    """Instead of running whichever was found last."""
    announce(folder, "twice", ListedRacks="elsewhere")
    config = folder / "config.yaml"
    config.write_text(config_with("plugins: {filter: {enabled: [{name: ListedRacks}]}}"))

    result = call("config", str(config))

    assert result.exit_code == 2
    assert (
        'plugin "ListedRacks" is in more than one package: listed 1.2 and twice 1; '
        "uninstall all but one"
    ) in result.stderr
    assert call("plugin", "list").stdout.count("is in more than one package") == 2


def announce(folder: Path, package: str, **modules: str) -> None:
    """Install another package with plugins, each of the name of its class."""
    info = folder / f"{package}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    entries = "".join(f"{name} = {module}:{name}\n" for name, module in modules.items())
    (info / "entry_points.txt").write_text(f"[stowage.plugins]\n{entries}")
    for module in modules.values():
        sys.modules.pop(module, None)


def test_without_any_the_list_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was looked for."""
    monkeypatch.setattr("scheduler.daemon.bootstrap.installed.entry_points", lambda **_: ())

    result = call("plugin", "list")

    assert (result.exit_code, result.stdout) == (
        0,
        "No installed package announces a plugin (entry point group stowage.plugins).\n",
    )


@pytest.mark.parametrize("name", ["NodeResourcesFit", "KeepRoom"])
def test_a_name_that_is_taken_is_one_message(folder: Path, name: str) -> None:
    """No package replaces a plugin of kube-scheduler, or one of Stowage, by being installed."""
    announce(folder, "taken", **{name: "listed_taken"})
    (folder / "listed_taken.py").write_text(_GOOD.replace("ListedRacks", name))
    config = folder / "config.yaml"
    config.write_text(config_with("plugins: {multiPoint: {enabled: [{name: ListedRacks}]}}"))
    expected = f'plugin "{name}" (taken 1): expected another name'

    results = [call("config", str(config)), call("run", "--config", str(config))]

    assert [each.exit_code for each in results] == [2, 2]
    assert all(f"profiles: {expected}" in each.stderr for each in results)
    assert expected in " ".join(call("plugin", "list").stdout.split())
