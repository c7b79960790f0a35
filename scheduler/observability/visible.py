"""Escapes control characters, so that terminals and pagers only show a text.

Tenants write names and messages. JSON escapes only the control characters of C0; those of C1, DEL,
line and paragraph separators and marks of text direction have effects too. Surrogates, which stand
for the bytes of a file name that is no text, cannot be printed.
"""

import re
from typing import Final

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
"""Tabs and line feeds are not among them: texts may have several lines."""


def visible(text: str) -> str:
    """Return the text with these characters escaped as in JSON."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
