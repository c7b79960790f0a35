"""`python -m tests.where [MODULE...]`: the unit tests of modules of `scheduler/`.

A module's tests are those that import from it; names are followed through packages that export
them. A module that no test imports has the tests of the modules that import it.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parent.parent
PRODUCT: Final = CHECKOUT / "scheduler"
UNIT: Final = CHECKOUT / "tests" / "unit"
_IMPORT: Final = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
_LOADED: Final = re.compile(r"""["'](scheduler(?:\.\w+)*)\.([^"'\n.]*)["']""")


def modules_with_tests() -> dict[str, list[str]]:
    """For each module of the product, as a path, its unit tests."""
    paths = {_module_of(path): path for path in PRODUCT.rglob("*.py")}
    imports = {module: list(_imports(path)) for module, path in paths.items()}
    exports = {module: dict(names) for module, names in imports.items()}
    tests: dict[str, set[str]] = defaultdict(set)
    importers: dict[str, set[str]] = defaultdict(set)
    for test in UNIT.rglob("*.py"):
        for name, module in _imports(test):
            tests[_home(name, module, exports)].add(_path(test))
    for importer, names in imports.items():
        for name, module in names:
            importers[_home(name, module, exports)].add(importer)
    modules = (name for name, path in sorted(paths.items()) if not path.name.startswith("__"))
    return {_path(paths[name]): sorted(_nearest(name, tests, importers)) for name in modules}


def _nearest(
    module: str, tests: Mapping[str, set[str]], importers: Mapping[str, set[str]]
) -> set[str]:
    """A module's own tests, or those of what imports it, or of what imports that."""
    seen, level = {module}, {module}
    while level:
        found = {test for name in level for test in tests.get(name, ())}
        if found:
            return found
        level = {user for name in level for user in importers.get(name, ())} - seen
        seen |= level
    return set()


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    """Each imported name with the module that it is imported from; also what is loaded by name."""
    # By their text: trees of all files take seconds.
    text = path.read_text()
    for module, names in _IMPORT.findall(text):
        for name in re.sub(r"#.*|[()]", "", names).split(","):
            if words := name.split():
                yield words[0], module
    for module, name in _LOADED.findall(text):
        yield name, module


def _home(name: str, module: str, exports: Mapping[str, Mapping[str, str]]) -> str:
    """The module that defines what is imported from another one."""
    if f"{module}.{name}" in exports:
        return f"{module}.{name}"
    while (further := exports.get(module, {}).get(name)) is not None and further != module:
        module = further
    return module


def _module_of(path: Path) -> str:
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _path(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


def main() -> None:
    every = modules_with_tests()
    for module in sys.argv[1:] or every:
        for test in every.get(module, ()):
            print(module, test)


if __name__ == "__main__":
    main()
