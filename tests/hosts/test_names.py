"""Lists of hosts: what they stand for, and what no list may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.errors import GputopError, UsageError
from gputop.hosts.names import parse_hosts, read_hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", "a"),
        ("a,b,a", "a b"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[08-10,12]-ib, x", "n08-ib n09-ib n10-ib n12-ib x"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("me@c:2222,ssh://me@d:22", "me@c:2222 ssh://me@d:22"),
        ("fe80::1%eth0,pod/x-0", "fe80::1%eth0 pod/x-0"),
        ("[fe80::1%eth0]:2222,me@[::1],[2001:db8::5]", "[fe80::1%eth0]:2222 me@[::1] [2001:db8::5]"),
    ],
)
def test_a_list_names_hosts(text: str, hosts: str) -> None:
    assert parse_hosts(text) == tuple(hosts.split())


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " , ",
            "-oProxyCommand=touch /x",
            "a,-x",
            "me@-oX",
            "me@",
            "a b",
            "a;b",
            "$(x)",
            "a\x1b[2J",
            "a\nb",
            "`x`",
            "a'b",
        ),
        *(
            "n[1-",
            "n1-2]",
            "n[[1]]",
            "n[]",
            "n[a-b]",
            "n[3-1]",
            "n[1-99999]",
            "n[1-100]m[1-100]",
            "n[1-999999999]",
            "[::1",
            "[::1]x",
            "-o@[::1]",
            "[::1;x]",
        ),
    ],
)
def test_an_invalid_host_is_refused_with_two_sentences(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_hosts(text)
    assert refused.value.message.endswith(".")
    assert refused.value.hint.endswith(".")
    assert str(refused.value).isprintable()


def test_a_file_holds_one_host_a_line_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# the lab\na\n\n  n[1-2]  # two\n")
    assert read_hosts(path) == ("a", "n1", "n2")
    path.write_text("# none\n")
    with pytest.raises(UsageError, match="names no host"):
        read_hosts(path)
    with pytest.raises(GputopError, match="cannot be read"):
        read_hosts(tmp_path / "none")
