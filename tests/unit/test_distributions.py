"""What is in the wheels, and what a plugin's package gets that depends on them.

The production image has no stand-in, the demo's has nothing else.
"""

import ast
import json
import os
import re
import runpy
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import (
    PackageNotFoundError,
    distribution,
    packages_distributions,
    requires,
    version,
)
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
OF_EXTRAS = {
    "scheduler.daemon.recording.parquet": "pyarrow",
    "scheduler.tools.cli.top.app": "textual",
    "scheduler.testing.pytest_plugin": "pytest",
    "scheduler.tools.sweep.dask": "distributed",
    "scheduler.tools.sweep.directory": "pyarrow",
    "scheduler.tools.sweep.fetching": "fsspec",
    "scheduler.tools.sweep.picture": "matplotlib",
}
"""Modules that nothing imports unless it was asked for, and the package of an extra they need."""
IMPORT_ALL = """
import importlib, json, pkgutil, sys
sys.path[:0] = sys.argv[1:]
import scheduler
failed = {}
for module in pkgutil.walk_packages(scheduler.__path__, "scheduler.", failed.__setitem__):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as problem:
        failed[module.name] = problem.name
print(json.dumps(failed))
"""


def wheel(folder: str, work: Path, *, tag: str = "") -> list[str]:
    """The files in the wheel that pip makes of a folder; without a tag it is no repository."""
    source = work / "source"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in ("scheduler", "apistub", "deploy"):
        # With links as links: the operator's manifests are those of deploy/.
        shutil.copytree(ROOT / name, source / name, ignore=unwanted, symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    if tag:
        identity = (
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.com",
            "-c",
            "commit.gpgsign=false",
        )
        for words in (("init",), (*identity, "commit", "--allow-empty", "-m", "x"), ("tag", tag)):
            git = str(shutil.which("git"))
            subprocess.run([git, *words], cwd=source, check=True, capture_output=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-build-isolation", "--wheel-dir", str(work), str(source / folder)],
        check=True,
    )  # fmt: skip
    [found] = work.glob("*.whl")
    return names_in(found)


def names_in(wheel: Path) -> list[str]:
    """The files in a wheel."""
    with ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the scheduler: pip takes seconds to make one."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel(".", folder)
    [path] = folder.glob("*.whl")
    return path


def declared(project: Path, extra: str = "") -> set[str]:
    """What a project says that it needs."""
    metadata = tomllib.loads(project.read_text())["project"]
    needed = metadata["optional-dependencies"][extra] if extra else metadata["dependencies"]
    return {canonicalize_name(Requirement(each).name) for each in needed}


def imports_of(module: Path) -> Iterator[str]:
    """The packages a module imports anywhere in it, those of Python left out."""
    for node in ast.walk(ast.parse(module.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from {name.partition(".")[0] for name in names} - sys.stdlib_module_names


def only_locked(folder: Path) -> None:
    """Make a folder of what `pip install -r requirements.lock` would put there."""
    lock = (ROOT / "requirements.lock").read_text()
    for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE):
        try:
            files = distribution(name).files or ()
        except PackageNotFoundError:
            continue  # for another platform, or another Python
        for file in files:
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not (folder / top).exists():
                (folder / top).symlink_to(Path(str(distribution(name).locate_file(top))))


def made_up_wheel(folder: Path, name: str, version: str) -> None:
    """A wheel with nothing in it."""
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    with ZipFile(folder / f"{plain}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


def modules(package: str) -> set[str]:
    """The modules of a package in the repository."""
    return {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}


def test_the_wheel_of_the_scheduler_has_no_stand_in(ours: Path) -> None:
    """It is the package `scheduler`, whole, and nothing else."""
    files = names_in(ours)

    tops = {name.partition("/")[0] for name in files}
    assert tops == {"scheduler", "stowage_scheduler-0.0.0.dist-info"}
    assert {name for name in files if name.endswith(".py")} == modules("scheduler")
    templates = (ROOT / "scheduler" / "tools" / "cli" / "plugin_template").iterdir()
    assert {str(path.relative_to(ROOT)) for path in templates} <= set(files)
    manifests = (ROOT / "scheduler" / "operator" / "manifests").iterdir()
    assert {str(path.relative_to(ROOT)) for path in manifests} <= set(files)


def test_a_plugin_gets_this_scheduler_and_no_other(ours: Path, tmp_path: Path) -> None:
    """In an empty environment: `stowage` is somebody else's, newer or not.

    The index is a folder: our wheel, empty ones of what it needs, and the other `stowage`.
    """
    shutil.copy(ours, tmp_path)
    made_up_wheel(tmp_path, "stowage", "99.0")
    for requirement in requires("stowage-scheduler") or ():
        needed = Requirement(requirement)
        if needed.marker is None:
            made_up_wheel(tmp_path, needed.name, version(needed.name))
    plugin = tmp_path / "plugin"
    shutil.copytree(ROOT / "examples" / "plugins" / "cool-racks", plugin)

    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--dry-run", "--ignore-installed", "--no-index", f"--find-links={tmp_path}",
         "--no-build-isolation", "--report=-", str(plugin)],
        check=True,
        capture_output=True,
    )  # fmt: skip

    report = json.loads(done.stdout)
    chosen = {each["metadata"]["name"]: each["metadata"]["version"] for each in report["install"]}
    assert chosen["stowage-scheduler"] == ours.name.split("-")[1]
    assert chosen["cool-racks"] == "0.1.0"
    assert "stowage" not in chosen
    assert "numpy" in chosen


def test_the_wheel_of_the_demo_is_the_stand_in(tmp_path: Path) -> None:
    """It is the package `apistub`, whole, and brings the command."""
    files = wheel("apistub", tmp_path, tag="v1.2.3")

    tops = {name.partition("/")[0] for name in files}
    assert tops == {"apistub", "stowage_scheduler_demo-1.2.3.dist-info"}
    assert {name for name in files if name.endswith(".py")} == modules("apistub")
    assert "stowage_scheduler_demo-1.2.3.dist-info/entry_points.txt" in files


def test_a_tag_is_the_version(tmp_path: Path) -> None:
    """There is no other place that says it."""
    files = wheel(".", tmp_path, tag="v3.2.1")

    assert "stowage_scheduler-3.2.1.dist-info/METADATA" in files


def test_changelog_chart_and_tag_name_one_release() -> None:
    """The newest one; a checkout that is tagged is that release."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    chart = yaml.safe_load((ROOT / "deploy/helm/stowage/Chart.yaml").read_text())
    tags = subprocess.run(
        [str(shutil.which("git")), "tag", "--points-at", "HEAD", "v*"],
        cwd=ROOT,
        check=False,  # an archive of the sources is no repository
        capture_output=True,
        text=True,
    )

    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", heading) for heading in headings[1:])
    assert headings[1] == f"v{chart['version']}" == f"v{chart['appVersion']}"
    assert set(tags.stdout.split()) <= {headings[1]}


def test_the_image_is_built_without_the_stand_in() -> None:
    """Neither the context nor any step of the Dockerfile has it."""
    for name in ("Dockerfile", ".dockerignore"):
        assert "apistub" not in (ROOT / name).read_text()
    assert (ROOT / ".dockerignore").read_text().startswith("*\n")


def test_the_daemon_is_what_the_dockerfile_builds() -> None:
    """The operator's image has the same files, and is asked for by its target."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert 'FROM image AS operator\nCMD ["operator"]\n' in dockerfile
    assert dockerfile.rstrip().endswith('FROM image AS daemon\nCMD ["run"]')


def test_the_context_of_the_image_has_what_is_copied() -> None:
    """Everything that the Dockerfile copies, and where the links of the package lead."""
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines()[1:]]
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and not line.startswith("COPY --from"):
            for source in line.split()[1:-1]:
                assert any(each.split("/")[0] == source for each in kept), line
    links = (ROOT / "scheduler" / "operator" / "manifests").iterdir()
    for path in (ROOT / "deploy" / "image" / "rootfs.py", *(link.resolve() for link in links)):
        assert any(path.relative_to(ROOT).match(each) for each in kept), path


def test_every_user_may_write_into_tmp_of_the_image(tmp_path: Path) -> None:
    """Whatever the umask of the build is."""
    names = runpy.run_path(str(ROOT / "deploy" / "image" / "rootfs.py"))["_names"]
    before = os.umask(0o077)
    try:
        names(tmp_path)
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "tmp").stat().st_mode) == 0o1777


def test_nothing_in_the_scheduler_names_the_stand_in() -> None:
    """The command group finds the demo by an entry point."""
    naming = [path for path in (ROOT / "scheduler").rglob("*.py") if "apistub" in path.read_text()]

    assert naming == []


@pytest.mark.parametrize(
    ("package", "project"), [("scheduler", "pyproject.toml"), ("apistub", "apistub/pyproject.toml")]
)
def test_what_is_imported_is_declared(package: str, project: str) -> None:
    """What came along with something else today may not tomorrow."""
    provided = packages_distributions()
    needed = declared(ROOT / project)
    undeclared = {
        (str(module), name)
        for module in map(Path, modules(package))
        for name in imports_of(ROOT / module)
        if name not in {package, OF_EXTRAS.get(".".join(module.with_suffix("").parts))}
        and not needed & set(map(canonicalize_name, provided[name]))
    }

    assert undeclared == set()
    named = ("dask", "data", "sweep", "testing", "top")
    extras = (declared(ROOT / "pyproject.toml", extra) for extra in named)
    assert set(OF_EXTRAS.values()) <= set().union(*extras)


def test_the_locked_packages_are_enough(tmp_path: Path) -> None:
    """Every module can be imported with requirements.lock alone, but for those of extras."""
    only_locked(tmp_path)

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALL, str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )

    failed = json.loads(done.stdout)
    assert failed.pop("scheduler.tools.cli.top", "textual") == "textual"
    assert failed == OF_EXTRAS
