"""The base class of all answer types."""

import msgspec


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """An output type, whose fields are camelCase in JSON."""
