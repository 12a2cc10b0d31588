"""Which lines only repeat what another host printed: a launcher prints the lines of all hosts, each after its host. Pure.

pdsh, which DeepSpeed starts the hosts with, prints "10.0.0.1: {'loss': 0.5}". Such a line has no step; each host's would count.
"""

from __future__ import annotations

import re

_PREFIX = re.compile(r"((?:\d{1,3}\.){3}\d{1,3}|(?:worker|node|host|master)[\w.-]{0,60}|[\w.-]{1,60}): {1,4}(?=\{)")
_HOST = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|(?:worker|node|host|master)[\w.-]{0,60}")
"""A prefix that can be nothing else. Other words are those of a host if the same text follows several of them."""
_HOSTS_MAX = 4096


class Hosts:
    """Follows how many dictionaries each host of one stream printed."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._most = 0
        self._newest: tuple[str, str] | None = None
        """The newest line that is no copy, as its prefix and the rest."""

    def is_copy(self, line: str) -> bool:
        """Return whether another host already printed this dictionary, or as many; the host that is ahead counts."""
        found = _PREFIX.match(line)
        if found is None:
            return False
        host, rest = found[1], line[found.end() :].rstrip()
        if _HOST.fullmatch(host):
            if host not in self._lines and len(self._lines) >= _HOSTS_MAX:
                return False
            self._lines[host] = self._lines.get(host, 0) + 1
            is_ahead = self._lines[host] > self._most
            self._most = max(self._most, self._lines[host])
            return not is_ahead
        if self._newest is not None and self._newest[1] == rest and self._newest[0] != host:
            return True
        self._newest = host, rest
        return False
