"""What all types of answers have in common."""

import msgspec


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Common settings of the output types."""
