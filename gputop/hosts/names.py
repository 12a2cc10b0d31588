"""Lists of hosts, as ``-H`` and ``--hosts`` take them: ``a,user@b,n[01-16]:2222``. Pure except for reading the file."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from gputop.errors import GputopError, UsageError
from gputop.terminal_text import printable

HOSTS_MAX = 256
"""Each host costs three pipes and a thread; ``select`` takes descriptors below 1024."""
FILE_MAX_BYTES = 1 << 20
"""A larger file is not a list of hosts."""

_EXAMPLE = "Write it like a,user@b,n[1-8]."
_NAME = re.compile(r"[\w.@:%+/~=-]+")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_ADDRESS = re.compile(r"(?:[\w.+~=-]+@)?\[[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?\](?::\d{1,5})?")
"""An IPv6 address as it is written before a port."""


def parse_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of a list, each once, in order: ``a,n[1-3,7]`` is a, n1, n2, n3, n7; ``n[01-12]`` keeps its zeros.

    Raises:
        UsageError: the list is empty or too long, or a name in it cannot be a host's.
    """
    found: dict[str, None] = {}
    for pattern in _split(text):
        for name in _expanded(pattern):
            _check(name)
            found[name] = None
            if len(found) > HOSTS_MAX:
                raise _too_many()
    if not found:
        raise UsageError("The list of hosts is empty.", _EXAMPLE)
    return tuple(found)


def read_hosts(path: Path) -> tuple[str, ...]:
    """Return the hosts of a file: one name or list a line; what follows a # is a comment.

    Raises:
        GputopError: the file cannot be read.
        UsageError: it holds no host, too many, or a name that cannot be a host's.
    """
    hint = "Name a file with one host per line."
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX_BYTES + 1)
    except OSError as error:
        raise GputopError(f"{path} cannot be read: {error.strerror}.", hint) from error
    if len(data) > FILE_MAX_BYTES:
        raise UsageError(f"{path} is too large for a list of hosts.", hint)
    lines = (line.partition("#")[0].strip() for line in data.decode(errors="replace").splitlines())
    listed = ",".join(line for line in lines if line)
    if not listed:
        raise UsageError(f"{path} names no host.", hint)
    return parse_hosts(listed)


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets; drop empty parts."""
    parts, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            break
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise UsageError(f"The brackets in {printable(text)!r} do not match.", _EXAMPLE)
    return [part.strip() for part in parts if part.strip()]


def _expanded(pattern: str) -> list[str]:
    """Return the names that a pattern with ranges in brackets stands for."""
    if _ADDRESS.fullmatch(pattern):
        return [pattern]
    texts, total = [], 1
    for place, part in enumerate(re.split(r"\[([^]]*)\]", pattern)):
        choices = _numbers(part, pattern) if place % 2 else [part]
        total *= len(choices)
        if total > HOSTS_MAX:
            raise _too_many()
        texts.append(choices)
    return ["".join(chosen) for chosen in product(*texts)]


def _numbers(text: str, pattern: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if found is None or last < first:
            raise UsageError(
                f"[{printable(text)}] in {printable(pattern)!r} is not a range of numbers.", "Write it like n[1-8,12]."
            )
        if last - first >= HOSTS_MAX:
            raise _too_many()
        numbers += [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
    return numbers


def _check(name: str) -> None:
    """Refuse anything that a command could take for an option, or a shell for something other than a name.

    Raises:
        UsageError: the name cannot be a host's.
    """
    is_name = _NAME.fullmatch(name) or _ADDRESS.fullmatch(name)
    if not is_name or any(part.startswith("-") for part in name.split("@")) or name.endswith("@"):
        raise UsageError(f"{printable(name)!r} cannot be the name of a host.", _EXAMPLE)


def _too_many() -> UsageError:
    return UsageError(f"That names more than {HOSTS_MAX} hosts.", "Watch fewer at once.")
