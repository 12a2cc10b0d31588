"""Commands in findings about runs over hosts: with the options by which the user reaches these hosts. Pure text.

Rules know the names that the user gave to hosts, but not how to reach them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from gputop.doctor.findings.finding import Finding

Reach = Callable[[Sequence[str]], str]
"""Returns the options of a command line that reach these hosts: "-H a,b --via 'ssh -F lab {host}'"."""
_NAMED = re.compile(r"^(gputop(?: [a-z]+)?) -H ('[^\n]*?'(?= |$)|[^\s#]+)", re.MULTILINE)
_UNNAMED = re.compile(r"^gputop where(?! -H)", re.MULTILINE)
_LOGS = re.compile(r"^gputop logs (?!-H)('[^\n]*'|\S+)", re.MULTILINE)


def plainly(hosts: Sequence[str]) -> str:
    """Return the options for hosts that the user's own ssh reaches."""
    return f"-H {shlex.quote(','.join(hosts))}"


def reached(finding: Finding, hosts: Sequence[str], reach: Reach) -> Finding:
    """Return a finding about a run over ``hosts`` whose gputop commands can be copied: they name and reach the hosts."""
    fix = _NAMED.sub(lambda found: f"{found[1]} {reach(_unquoted(found[2]).split(','))}", finding.fix)
    fix = _UNNAMED.sub(lambda found: f"{found[0]} {reach(hosts)}", fix)
    return replace(finding, fix=fix) if fix != finding.fix else finding


def _unquoted(word: str) -> str:
    return word[1:-1] if word.startswith("'") else word


def from_afar(finding: Finding, host: str, hosts: Sequence[str], reach: Reach) -> Finding:
    """Return a finding about one of ``hosts`` whose gputop commands can be copied here.

    The output of a whole run is on all of them, that of a job on this host.
    """

    def logs(found: re.Match[str]) -> str:
        return f"gputop logs {reach(hosts if found[1] == shlex.quote(finding.run or '') else (host,))} {found[1]}"

    found = reached(finding, (host,), reach)
    return replace(found, fix=_LOGS.sub(logs, found.fix)) if "gputop logs" in found.fix else found
