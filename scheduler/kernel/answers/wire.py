"""The base class of all answer types."""

import msgspec


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Common settings of the output types."""
