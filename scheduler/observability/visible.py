"""Text that terminals and pagers only show: control characters are written out instead.

Names and messages come from tenants. JSON escapes the old control characters
(C0); those of C1, DEL, line and paragraph separators and the marks that turn writing around are
as effective, and would pass.
"""

import re
from typing import Final

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
"""Tabs and line feeds are left: text on several lines is intended."""


def visible(text: str) -> str:
    """The text with such characters written as in JSON."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
