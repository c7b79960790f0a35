"""Parses the documents of a YAML or JSON text, each with its place."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml

from scheduler.config.aliases import EXCESSIVE, are_excessive
from scheduler.errors import SchedulerError

_TAG: Final = "tag:yaml.org,2002:"
_MERGE_TAG: Final = f"{_TAG}merge"
_TEXT_TAG: Final = f"{_TAG}str"
_INTEGER_TAG: Final = f"{_TAG}int"
_BOOLEAN_TAG: Final = f"{_TAG}bool"
_TEXT_SHOWN: Final = 40
"""Characters at most of a text in a message."""
_DECIMAL: Final = re.compile("0|-?[1-9][0-9]{0,17}")
"""Whole numbers that every reader of YAML reads alike."""


class InputError(SchedulerError):
    """A file, document or field cannot be read; the message names all three."""


def documents_from_text(text: str, source: str) -> Iterator[tuple[str, Any]]:
    """Yield the documents of a YAML or JSON text, each with its place.

    Raises:
        InputError: the text is neither, or is empty.
    """
    try:
        # JSON first: it is much faster to parse, and usual for whole clusters.
        yield source, msgspec.json.decode(text)
    except msgspec.DecodeError:
        yield from _yaml_documents(text, source)
    except RecursionError as problem:
        raise _too_deep(source) from problem


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Parses YAML as Kubernetes does: a time and a key are texts, and a key is given once."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._may_have_aliases = "*" in text
        self._checked: dict[int, yaml.MappingNode] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Check the keys before those of merged mappings (`<<`) come beside them."""
        if id(node) not in self._checked:
            self._checked[id(node)] = node
            _check_keys(node)
        super().flatten_mapping(node)

    def construct_document(self, node: yaml.Node) -> Any:
        """Construct one document; the nodes of the last one are forgotten.

        Raises:
            ConstructorError: its aliases stand for too many values.
        """
        if self._may_have_aliases and are_excessive(node):
            raise yaml.constructor.ConstructorError(None, None, EXCESSIVE, node.start_mark)
        self._checked.clear()
        return super().construct_document(node)


def _check_keys(node: yaml.MappingNode) -> None:
    """Make texts of the keys, and check that none is given twice: the first would be lost.

    Raises:
        ConstructorError: a key is given twice, or is no text, whole number or boolean.
    """
    known: dict[str, yaml.Node] = {}
    for index, (key, value) in enumerate(node.value):
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE_TAG:
            continue
        text = _key_text(key)
        if text != key.value or key.tag != _TEXT_TAG:
            node.value[index] = (_text_node(key, text), value)
        first = known.setdefault(text, key)
        if first is not key:
            line = first.start_mark.line + 1
            told = f"{text!r} is given twice, first in line {line}; keep one of them"
            raise yaml.constructor.ConstructorError(None, None, told, key.start_mark)


def _key_text(key: yaml.ScalarNode) -> str:
    """Return the text that sigs.k8s.io/yaml (convertToJSONableObject) makes of a key."""
    text: str = key.value
    boolean = yaml.SafeLoader.bool_values.get(text.lower())
    if key.tag == _BOOLEAN_TAG and boolean is not None:
        return "true" if boolean else "false"
    if key.tag == _TEXT_TAG or (key.tag == _INTEGER_TAG and _DECIMAL.fullmatch(text)):
        return text
    told = f"{text!r} is no text as a key; expected it in quotes"
    raise yaml.constructor.ConstructorError(None, None, told, key.start_mark)


def _text_node(key: yaml.ScalarNode, text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode(_TEXT_TAG, text, key.start_mark, key.end_mark)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _checked(
    construct: Callable[[Any, yaml.ScalarNode], object],
) -> Callable[[Any, yaml.ScalarNode], object]:
    """Return a constructor of scalars that names the place of a text that it cannot read."""

    def constructed(loader: _Loader, node: yaml.ScalarNode) -> object:
        try:
            return construct(loader, node)
        except (ValueError, LookupError) as problem:
            kind, text = node.tag.removeprefix(_TAG), node.value[:_TEXT_SHOWN]
            told = f"{text!r} cannot be read as {kind}"
            raise yaml.constructor.ConstructorError(None, None, told, node.start_mark) from problem

    return constructed


_constructors = yaml.SafeLoader.yaml_constructors
for _tag in (_BOOLEAN_TAG, _INTEGER_TAG, f"{_TAG}float"):
    _Loader.add_constructor(_tag, _checked(_constructors[_tag]))
_Loader.add_constructor(f"{_TAG}timestamp", _constructors[_TEXT_TAG])


def _yaml_documents(text: str, source: str) -> Iterator[tuple[str, Any]]:
    is_empty = True
    try:
        for number, document in enumerate(yaml.load_all(text, _Loader), 1):
            if document is not None:
                is_empty = False
                yield f"{source}: document {number}", document
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise InputError(f"{place}: not valid YAML: {problem.problem}") from problem
    except yaml.YAMLError as problem:
        raise InputError(f"{source}: not valid YAML: {problem}") from problem
    except RecursionError as problem:
        raise _too_deep(source) from problem
    if is_empty:
        raise InputError(f"{source}: empty; expected Kubernetes objects in YAML or JSON")


def _too_deep(source: str) -> InputError:
    return InputError(f"{source}: lists and mappings are nested too deeply")


def items_of(document: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a document, which may be a list.

    Raises:
        InputError: the document is neither an object nor a list.
    """
    if not isinstance(document, Mapping):
        raise InputError(f"{place}: expected a Kubernetes object, got {_shown(document)}")
    if not str(document.get("kind", "")).endswith("List") or "items" not in document:
        yield place, document
        return
    items = document["items"]
    if items is None:
        # Go encodes a nil slice as null: an empty list.
        return
    if not isinstance(items, list):
        raise InputError(f"{place}: items: expected a list, got {_shown(items)}")
    item_kind = str(document["kind"]).removesuffix("List")
    for index, item in enumerate(items):
        at = f"{place}: items[{index}]"
        if not isinstance(item, Mapping):
            raise InputError(f"{at}: expected a Kubernetes object, got {_shown(item)}")
        # The items of a PodList have no kind.
        yield at, item if "kind" in item or not item_kind else {**item, "kind": item_kind}


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return "a list"
    return f"{value!r}"
