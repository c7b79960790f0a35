"""Detects YAML documents whose aliases stand for very many values, so that no reader copies them.

Source of the idea: go.yaml.in/yaml/v2 decode.go (allowedAliasRatio).
"""

from typing import Final

import yaml

MANY_VALUES: Final = 100_000
MANY_TIMES: Final = 10
EXCESSIVE: Final = f"aliases stand for more than {MANY_VALUES:,} values; write the values out"

_ENDLESS: Final = 2**40
"""Larger sums would grow to numbers of very many digits."""


def are_excessive(document: yaml.Node) -> bool:
    """Whether aliases make a document of more than `MANY_VALUES` values out of much fewer.

    Args:
        document: the composed document; aliases are repeated nodes.

    Raises:
        RecursionError: lists and mappings are nested too deeply.
    """
    sizes: dict[int, int] = {}
    size = _size(document, sizes)
    return size > MANY_VALUES and size > MANY_TIMES * len(sizes)


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    known = sizes.get(id(node))
    if known is not None:
        return known
    sizes[id(node)] = size = 1  # for an alias within its own value
    if isinstance(node, yaml.SequenceNode):
        size += sum(_size(each, sizes) for each in node.value)
    elif isinstance(node, yaml.MappingNode):
        size += sum(_size(key, sizes) + _size(value, sizes) for key, value in node.value)
    sizes[id(node)] = size = min(size, _ENDLESS)
    return size
