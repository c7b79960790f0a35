"""`python -m tests.words`: words that name nothing, and sentences that are read twice.

It reads comments and docstrings of the product, and the pages. A few of the words are meant: about
people, or as a question that a user asks. A docstring opens with its subject or its verb. Text that
a command draws into a page is not read; nor are tables and indented text in docstrings.
"""

import ast
import inspect
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
QUESTIONS: Final = re.compile(r"(What|Which|Who|How|Why|Where|When|Those)\b")
"""A docstring that opens with one of these does not name its subject."""
PAGES: Final = ("README.md", "CONTRIBUTING.md", "docs/*.md")
LONGEST: Final = 25
"""Words of a sentence; what stands in backticks or parentheses is one."""

_DRAWN: Final = re.compile(r"^```.*?^```|<!-- (?:drawn|begin).*?<!-- end", re.DOTALL | re.MULTILINE)
_BLOCK: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |#|\|))")
_PART: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |\w+(?:, \w+)*: ))")
"""Divides a docstring into paragraphs, list items and entries such as those of arguments."""
_SHOWN: Final = re.compile(r"\n[ ]+\b|[─├└│]|-{4}|\x08")
"""Occurs in a paragraph that is a table, a drawing or an example."""
_SENTENCE: Final = re.compile(r"(?<=[.!?:])[*\"')]*\s+(?=[\"'(]?[A-Z`\[*])")
_UNIT: Final = re.compile(r"`[^`]*`|\([^)]*\)")


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


def questions() -> Iterator[tuple[str, int, str]]:
    """File, line and first line of each docstring that opens with a word of `QUESTIONS`."""
    for path in sorted((CHECKOUT / "scheduler").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Expr(ast.Constant(str(text))) if QUESTIONS.match(text):
                    first = text.splitlines()[0]
                    yield str(path.relative_to(CHECKOUT)), node.lineno, first


def long_sentences() -> Iterator[tuple[str, int, str]]:
    """File, number of words and text of each sentence of more than `LONGEST` words."""
    for path, part in _paragraphs():
        for sentence in _SENTENCE.split(" ".join(part.split())):
            count = len([word for word in _UNIT.sub("x", sentence).split() if word != "·"])
            if count > LONGEST:
                yield path, count, sentence


def _paragraphs() -> Iterator[tuple[str, str]]:
    """The paragraphs of the pages and of docstrings, each with its file."""
    for pattern in PAGES:
        for path in sorted(CHECKOUT.glob(pattern)):
            for block in _BLOCK.split(_DRAWN.sub("", path.read_text())):
                if not block.lstrip().startswith("|"):
                    yield str(path.relative_to(CHECKOUT)), block
    for path in sorted((CHECKOUT / "scheduler").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Expr(ast.Constant(str(text))):
                    name = str(path.relative_to(CHECKOUT))
                    parts = _PART.split(inspect.cleandoc(text))
                    yield from ((name, part) for part in parts if not _SHOWN.search(part))


def main() -> None:
    lines = list(found())
    for path, number, text in lines:
        print(f"{path}:{number}: {text[:120]}")
    print(f"{len(lines)} lines say who, nobody or somebody; at most {ALLOWED} may")
    unnamed = list(questions())
    for path, number, text in unnamed:
        print(f"{path}:{number}: {text}")
    print(f"{len(unnamed)} docstrings open with what, which or how; none may")
    sentences = list(long_sentences())
    for page, count, text in sentences:
        print(f"{page}: {count} words: {text[:120]}")
    print(f"{len(sentences)} sentences have more than {LONGEST} words; none may")
    sys.exit(len(lines) > ALLOWED or bool(sentences or unnamed))


if __name__ == "__main__":
    main()
