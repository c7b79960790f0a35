"""`python -m tests.words`: words that stand for a caller, a plugin or a pod that could be named.

It reads comments and docstrings of the product, and the pages. A few of these words are meant:
about people, or as a question that a user asks.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parent.parent
WORDS: Final = re.compile(r"\b(who|whom|whoever|nobody|somebody|everybody)\b", re.IGNORECASE)
ALLOWED: Final = 20
PAGES: Final = ("README.md", "CONTRIBUTING.md", "docs/*.md")


def found() -> Iterator[tuple[str, int, str]]:
    """File, line and text of each line with one of the words."""
    for path in sorted((CHECKOUT / "scheduler").rglob("*.py")):
        for number, text in prose(path.read_text()):
            if WORDS.search(text):
                yield str(path.relative_to(CHECKOUT)), number, text.strip()
    for pattern in PAGES:
        for path in sorted(CHECKOUT.glob(pattern)):
            for number, text in enumerate(path.read_text().splitlines(), 1):
                if WORDS.search(text):
                    yield str(path.relative_to(CHECKOUT)), number, text.strip()


def prose(source: str) -> Iterator[tuple[int, str]]:
    """The lines of comments and docstrings, with their numbers."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str(text))):
                yield from enumerate(text.splitlines(), node.lineno)


def main() -> None:
    lines = list(found())
    for path, number, text in lines:
        print(f"{path}:{number}: {text[:120]}")
    print(f"{len(lines)} lines say who, nobody or somebody; at most {ALLOWED} may")
    sys.exit(len(lines) > ALLOWED)


if __name__ == "__main__":
    main()
