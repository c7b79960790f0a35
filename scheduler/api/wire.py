"""The common form of all types that decode straight from the bytes of the API server.

They have only the fields that scheduling reads; unknown fields are ignored. Field names are
upstream's in Python spelling, JSON names are upstream's.
"""

import msgspec


class ApiStruct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Common settings of every wire type.

    Objects are immutable and hold no cycles, so the garbage collector need not look at them
    (`gc=False`).
    """
