"""docs/architecture.md lists every thread that gputop starts under a name, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests import REPOSITORY

PAGE = REPOSITORY / "docs" / "architecture.md"
NUMBER = re.compile(r"(?<=-)(?:N|NAME)$")


def texts(node: ast.AST) -> Iterator[str]:
    """Yield a text as the page writes it: without what an f-string inserts at its end."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        yield str(node.values[0].value)


def called(node: ast.Call) -> str:
    """Return the last name of what is called: ``Thread`` of ``threading.Thread(...)``."""
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def test_the_page_lists_every_thread() -> None:
    rows = PAGE.read_text(encoding="utf-8").partition("| thread | in | does |")[2].partition("\n\n")[0]
    listed = {NUMBER.sub("", name) for row in rows.splitlines() for name in re.findall(r"`([^`]+)`", row.partition(" | ")[0])}
    started, written = set(), set()
    for path in (REPOSITORY / "gputop").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            written |= set(texts(node))
            if isinstance(node, ast.Call) and called(node).endswith("Thread"):
                started |= {name for word in node.keywords if word.arg == "name" for name in texts(word.value)}
    assert len(started) > 20
    assert not started - listed, f"not in the table of threads in {PAGE.name}: {sorted(started - listed)}"
    assert not listed - written, f"in the table of threads in {PAGE.name}, but in no module: {sorted(listed - written)}"
