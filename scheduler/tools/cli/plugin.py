"""`stowage plugin`: a package to begin a plugin with, and the plugins that are installed."""

import keyword
import re
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from scheduler.config.plugin_sets import IN_TREE
from scheduler.errors import SchedulerError, os_reason
from scheduler.tools.cli.echo import echo
from scheduler.tools.cli.tables import print_table

_BAD_INPUT: Final = 2
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z][a-z0-9]*)*")
_MAX_NAME: Final = 50
_TEMPLATES: Final = "plugin_template"

_FILES: Final = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "{{module}}.py": "module.py",
    "tests/test_{{module}}.py": "tests.py",
    "cluster.yaml": "cluster.yaml",
    "deploy/config.yaml": "config.yaml",
    "deploy/kustomization.yaml": "kustomization.yaml",
    "Dockerfile": "Dockerfile",
}
"""The files to write, and the template of each."""


@click.group()
def plugin() -> None:
    """Write a package for a plugin of your own, and list those that are installed."""


@plugin.command(short_help="Write a package with a plugin that works.")
@click.argument("name")
@click.option(
    "--into",
    "parent",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Where the folder NAME is made.",
)
def new(name: str, parent: Path) -> None:
    """Write a package with a plugin that works, its tests, an image and a deployment.

    NAME is that of the package, in small letters with hyphens: cool-racks makes the module
    cool_racks with the plugin CoolRacks. The exit status is 2 when the name cannot be used, as that
    of an installed package or module, or the folder is there already. Nothing is written then.
    """
    folder = parent / name
    problem = _problem_of_name(name)
    if problem is None and folder.exists():
        problem = f"{folder} is there already"
    if problem is not None:
        _refuse(problem)
    module, plugin_class = _module_of(name), _plugin_of(name)
    names = {"{{name}}": name, "{{module}}": module, "{{Plugin}}": plugin_class}
    try:
        for path, template in _FILES.items():
            text = (
                files("scheduler.tools.cli")
                .joinpath(_TEMPLATES, f"{template}.txt")
                .read_text("utf-8")
            )
            place = folder / _filled(path, names)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_filled(text, names), encoding="utf-8")
    except OSError as error:
        _refuse(f"{error.filename}: {os_reason(error)}")
    echo(f"{folder}: the plugin {plugin_class} in {module}.py. Next:")
    echo(f"  cd {folder}")
    echo("  python -m pytest")
    echo("  pip install --no-deps -e .")
    echo("  stowage explain --config deploy/config.yaml -f cluster.yaml")


@plugin.command("list", short_help="List the plugins of installed packages.")
def show_installed() -> None:
    """List the plugins that installed packages announce, and where they run.

    A plugin that cannot be used is listed with the reason. It stops only what is configured with
    it.
    """
    # Half a second that the other commands of this group need not wait for.
    from scheduler.daemon.bootstrap import (  # noqa: PLC0415
        announced_plugins,
        args_types_of,
        implemented_plugins,
        out_of_tree_plugins,
        package_of,
    )

    announced, plugins = announced_plugins(), out_of_tree_plugins()
    points, args = implemented_plugins(plugins), args_types_of(plugins)

    def points_of(name: str) -> str:
        try:
            args.get(name)
            return ", ".join(sorted(points[name]))
        except SchedulerError as problem:
            return str(problem)

    if not announced:
        echo("No installed package announces a plugin (entry point group stowage.plugins).")
        return
    rows = [
        (name, package_of(entry), points_of(name))
        for name, entries in sorted(announced.items())
        for entry in entries
    ]
    print_table(("plugin", "package", "runs at"), rows, texts=(0, 1, 2))


def _problem_of_name(name: str) -> str | None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        return (
            f"{name!r} cannot be the name of a package here; expected small letters and digits, "
            f"parts joined by hyphens and begun by a letter, {_MAX_NAME} in all: cool-racks"
        )
    module = _module_of(name)
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module == "scheduler":
        return f"{name!r} would be the module {module}, which is Python's own or Stowage's"
    if _plugin_of(name) in IN_TREE:
        return f"{name!r} would be the plugin {_plugin_of(name)}, which kube-scheduler has"
    return _taken(name, module)


def _taken(name: str, module: str) -> str | None:
    """Find an installed package that this one would replace, or a module that it would hide."""
    with suppress(PackageNotFoundError):
        installed = distribution(name)
        return (
            f"{name!r} is the name of a package that is installed (version {installed.version}), "
            "which pip would replace; choose another name, or uninstall it"
        )
    found = find_spec(module)
    if found is not None:
        place = found.origin or next(iter(found.submodule_search_locations or ()), "no file")
        return f"{name!r} would be the module {module}, which is there already ({place})"
    return None


def _module_of(name: str) -> str:
    return name.replace("-", "_")


def _plugin_of(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _filled(text: str, names: dict[str, str]) -> str:
    for placeholder, value in names.items():
        text = text.replace(placeholder, value)
    return text


def _refuse(problem: str) -> None:
    echo(f"stowage plugin new: {problem}", err=True)
    sys.exit(_BAD_INPUT)
