"""Builds the HTML of pages: of served ones, and of complete files to save.

No name from a cluster enters this HTML: a page's data is JSON, from which its modules make text
nodes. The policies forbid all scripts except those of the package.
"""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

Page: TypeAlias = Literal["now", "pod", "what-if", "replay"]

STATIC: Final = Path(__file__).resolve().with_name("static")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of served pages."""
_SAVED_POLICY: Final = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; base-uri 'none'; "
    "form-action 'none'"
)
PLOTS: Final = "vendor/uPlot.iife.min.js"
STYLES: Final = ("vendor/uPlot.min.css", "console.css")
_MODULES: Final = ("dom", "ask", "heat", "plots", "pod", "now", "whatif", "replay", "main")
"""The modules, each after those that it imports."""
_IMPORT: Final = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)
_BODY: Final = """\
<a class="skip" href="#main">Skip to the content</a>
<header class="top"><div class="bar"><a class="brand" href="{home}">Stowage</a>
<nav aria-label="Pages"></nav><span class="where"></span></div></header>
<main id="main"><noscript>These pages are drawn by JavaScript.</noscript></main>
<footer></footer>
"""
_HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stowage</title>
"""


def served_page(page: Page) -> str:
    """Return the shell of a page; its modules fetch their data from the server."""
    styles = "".join(f'<link rel="stylesheet" href="/static/{name}">\n' for name in STYLES)
    return (
        f'{_HEAD}<link rel="icon" href="/static/icon.svg">\n{styles}'
        f'<script src="/static/{PLOTS}"></script>\n'
        '<script type="module" src="/static/main.js"></script>\n</head>\n'
        f'<body data-page="{page}">\n{_BODY.format(home="/")}</body>\n</html>\n'
    )


def saved_page(page: Page, data: object) -> bytes:
    """Return a page as one complete file that needs no server.

    `data` is the server's answer to the page's modules: JSON, or a value that can be encoded.
    """
    plots, styles, script = _inline()
    policy = _SAVED_POLICY.format(
        scripts=f"{_hash(plots)} {_hash(script)}", styles=" ".join(map(_hash, styles))
    )
    # Only "<" could end a script element, or begin a comment in it.
    written = msgspec.json.encode({"page": page, "data": data}).replace(b"<", b"\\u003c")
    style = "".join(f"<style>{text}</style>\n" for text in styles)
    before = (
        f'{_HEAD}<meta http-equiv="Content-Security-Policy" content="{policy}">\n{style}</head>\n'
        f'<body data-page="{page}">\n{_BODY.format(home="#main")}'
        '<script type="application/json" id="saved">'
    )
    after = (
        f"</script>\n<script>{plots}</script>\n"
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    )
    return before.encode() + written + after.encode()


@cache
def _inline() -> tuple[str, tuple[str, ...], str]:
    """Return the plots, the styles, and all modules as one."""
    styles = tuple(_text(name) for name in STYLES)
    return _text(PLOTS), styles, "".join(map(_module, _MODULES))


def _module(name: str) -> str:
    """Return a module without imports and exports: all modules share one scope."""
    return _EXPORT.sub("", _IMPORT.sub("", _text(f"{name}.js")))


def _text(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
