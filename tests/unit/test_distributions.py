"""What is in the wheels: the production image has no stand-in, the demo's has nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]


def wheel(folder: str, work: Path, *, tag: str = "") -> list[str]:
    """The files in the wheel that pip makes of a folder; without a tag it is no repository."""
    source = work / "source"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in ("scheduler", "apistub"):
        shutil.copytree(ROOT / name, source / name, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    if tag:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        for words in (("init",), (*who, "commit", "--allow-empty", "-m", "x"), ("tag", tag)):
            git = str(shutil.which("git"))
            subprocess.run([git, *words], cwd=source, check=True, capture_output=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-build-isolation", "--wheel-dir", str(work), str(source / folder)],
        check=True,
    )  # fmt: skip
    [found] = work.glob("*.whl")
    with ZipFile(found) as archive:
        return archive.namelist()


def modules(package: str) -> set[str]:
    """The modules of a package in the repository."""
    return {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}


def test_the_wheel_of_the_scheduler_has_no_stand_in(tmp_path: Path) -> None:
    """It is the package `scheduler`, whole, and nothing else."""
    files = wheel(".", tmp_path)

    tops = {name.partition("/")[0] for name in files}
    assert tops == {"scheduler", "stowage_scheduler-0.0.0.dist-info"}
    assert {name for name in files if name.endswith(".py")} == modules("scheduler")


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


def test_the_image_is_built_without_the_stand_in() -> None:
    """Neither the context nor any step of the Dockerfile has it."""
    for name in ("Dockerfile", ".dockerignore"):
        assert "apistub" not in (ROOT / name).read_text()
    assert (ROOT / ".dockerignore").read_text().startswith("*\n")


def test_nothing_in_the_scheduler_names_the_stand_in() -> None:
    """The command group finds the demo by an entry point."""
    naming = [path for path in (ROOT / "scheduler").rglob("*.py") if "apistub" in path.read_text()]

    assert naming == []
