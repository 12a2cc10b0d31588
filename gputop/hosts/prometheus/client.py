"""The HTTP API of a Prometheus server: one query, with an answer of bounded time and size, or the reason for its failure.
Read-only.

The server is trusted as little as a host: its answers are bounded, typed, and stripped of control characters. The password or
token goes only to this server: no redirect is followed, and no message or record of gputop contains it.
"""

from __future__ import annotations

import base64
import http.client
import queue
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlencode, urlsplit

from gputop.errors import GputopError, UsageError
from gputop.hosts import checked
from gputop.hosts.state import WORDS_MAX, Failure
from gputop.terminal_text import printable, strip_controls
from gputop.wire import FormatError, decode

ANSWER_MAX_BYTES = 32 << 20
"""A thousand GPUs with twenty readings make some 8 MB."""
ANSWER_S = 10.0
"""A query is abandoned after this time, even if data still arrives."""
SILENCE_S = 5.0
"""A query is abandoned if the server sends nothing for this long."""
SECRET_MAX_BYTES = 16 << 10
"""A larger file does not hold a password or a token."""
_EXAMPLE = "Write it like --prometheus http://prometheus:9090."
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Server:
    """A server. ``url`` is shown to people and holds no password; ``authorization`` is the header of that name."""

    url: str
    authorization: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer. ``metric`` are its labels; a point is a time in seconds since the epoch and a number as text."""

    metric: Mapping[str, str]
    value: tuple[float, str] | None = None
    values: tuple[tuple[float, str], ...] = ()


class QueryError(Exception):
    """A query without an answer. ``failure`` gives the reason and the resulting state of its hosts."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def server_of(url: str, secret: Path | None = None) -> Server:
    """Return the server that ``--prometheus`` names. ``secret`` is a file with user:password, or with a token.

    Raises:
        UsageError: it is not the URL of a server, or the file holds neither.
        GputopError: the file cannot be read.
    """
    wrong = UsageError("--prometheus is not the URL of a server.", _EXAMPLE)  # quotes nothing: it may hold a password
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
        path = quote(parts.path.rstrip("/"), safe="/%")
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username is not None else None
        authorization = _basic(user) if user is not None else None
    except ValueError:  # one kind of it: bytes of the command line that are no UTF-8
        raise wrong from None
    if parts.scheme not in ("http", "https") or not host or not host.isprintable() or parts.query or parts.fragment:
        raise wrong
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    if any(character.isspace() for character in place):
        raise wrong
    if secret is not None:
        authorization = _secret_in(secret)
    return Server(f"{parts.scheme}://{place}{path}", authorization)


def _basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def _secret_in(file: Path) -> str:
    hint = "It must contain user:password, or a token, on one line."
    try:
        with file.open("rb") as opened:
            text = opened.read(SECRET_MAX_BYTES + 1).decode().strip()
    except OSError as error:
        raise GputopError(f"{file} cannot be read: {error.strerror}.", hint) from error
    except UnicodeDecodeError:
        text = ""
    if not text or len(text) > SECRET_MAX_BYTES or not text.isprintable() or (":" not in text and not text.isascii()):
        raise UsageError(f"{file} contains no password and no token.", hint)
    return _basic(text) if ":" in text else f"Bearer {text}"  # a token has no colon (RFC 6750)


class Client:
    """Asks one server. For one thread."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._opener = _opener(server)
        self._waiting: threading.Thread | None = None

    def ask(self, query: str) -> list[Series]:
        """Return the series that answer a query.

        Raises:
            QueryError: there is no answer.
        """
        url = f"{self.server.url}/api/v1/query?{urlencode({'query': query})}"
        status, body = self._within(url)
        try:
            data = checked.data_in(body)
        except FormatError:
            data = None
        if status in (401, 403):
            raise self._error(
                "permission_denied", "refuses the login", "Name a file with a password or token: --prometheus-auth"
            )
        if 300 <= status < 400:
            raise self._error("failed", "sends us elsewhere", "Give the URL that it redirects to.")
        if isinstance(data, dict) and data.get("status") == "error" and isinstance(why := data.get("error"), str):
            raise self._error("failed", f"reports an error: {_quoted(why)}")
        if status != 200:
            raise self._error("failed", f"answers with status {status}", "Check the URL, including its path.")
        try:
            if not isinstance(data, dict) or data.get("status") != "success":
                raise FormatError("not an answer")
            return [decode(Series, item) for item in data["data"]["result"]]
        except (FormatError, LookupError, TypeError):
            raise self._error("unreadable", "does not respond like Prometheus", "Check the URL, including its path.") from None

    def _within(self, url: str) -> tuple[int, bytes]:
        """Fetch in a thread of its own: nothing else limits a name lookup, or a server that sends byte by byte."""
        if self._waiting is not None and self._waiting.is_alive():
            raise self._error("timed_out", "has not answered yet")
        came: queue.SimpleQueue[tuple[int, bytes] | Exception] = queue.SimpleQueue()

        def fetch() -> None:
            try:
                came.put(self._fetch(url))
            except Exception as error:  # noqa: BLE001 - raised below, in the thread that asked
                came.put(error)

        self._waiting = threading.Thread(target=fetch, daemon=True, name="prometheus-query")
        self._waiting.start()
        try:
            found = came.get(timeout=ANSWER_S)
        except queue.Empty:
            raise self._error("timed_out", f"did not answer within {ANSWER_S:g} s", "Check that it runs.") from None
        self._waiting = None  # even if the thread has not quite ended
        if isinstance(found, QueryError):
            raise found
        if isinstance(found, Exception):
            raise self._described(found) from None  # its words may hold the URL as it was given
        return found

    def _fetch(self, url: str) -> tuple[int, bytes]:
        request = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": "gputop"})
        if self.server.authorization is not None:
            request.add_unredirected_header("Authorization", self.server.authorization)
        deadline = time.monotonic() + ANSWER_S
        response = self._opener.open(request, timeout=SILENCE_S)
        if response is None:
            raise self._error("failed", "cannot be reached through this proxy", "Check http_proxy and https_proxy.")
        parts: list[bytes] = []
        size = 0
        with response:
            while chunk := response.read1(_CHUNK_BYTES):
                size += len(chunk)
                if size > ANSWER_MAX_BYTES:
                    raise self._error("unreadable", f"sends more than {ANSWER_MAX_BYTES >> 20} MiB")
                if time.monotonic() > deadline:
                    raise self._error("timed_out", f"did not answer within {ANSWER_S:g} s")
                parts.append(chunk)
            return response.status, b"".join(parts)

    def _described(self, error: Exception) -> QueryError:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, socket.gaierror | UnicodeError):
            return self._error("not_resolved", "has a name without an address", "Check the URL.")
        if isinstance(reason, ConnectionRefusedError):
            return self._error("refused", "refuses the connection", "Check the URL, and that it runs.")
        if isinstance(reason, TimeoutError):
            return self._error("timed_out", f"sent nothing for {SILENCE_S:g} s", "Check that it runs.")
        if isinstance(reason, ssl.SSLCertVerificationError):
            why = _quoted(reason.verify_message)
            return self._error("failed", f"has a certificate that this machine does not trust: {why}")
        if isinstance(reason, ssl.SSLError):
            return self._error("failed", "does not speak TLS as https needs it", "Is it http?")
        if isinstance(reason, http.client.HTTPException | ConnectionError):
            return self._error("unreadable", "does not respond like an HTTP server", "Check the URL.")
        if isinstance(reason, OSError):
            return self._error(
                "unreachable", f"cannot be reached: {reason.strerror or type(reason).__name__}", "Check the URL."
            )
        return self._error("failed", f"cannot be asked: {type(error).__name__}", "Check the URL.")

    def _error(self, state: str, what: str, hint: str = "") -> QueryError:
        return QueryError(Failure(state, f"Prometheus at {self.server.url} {what}.", hint))  # type: ignore[arg-type]


def _quoted(words: str) -> str:
    return printable(strip_controls(words)).strip().rstrip(".")[:WORDS_MAX]


def _opener(server: Server) -> urllib.request.OpenerDirector:
    """Return what opens URLs of ``server``: only http and https, no redirects, and no proxy to this machine itself."""
    opener = urllib.request.OpenerDirector()
    host = urlsplit(server.url).hostname or ""
    here = host == "localhost" or host.startswith("127.") or host == "::1"
    opener.add_handler(urllib.request.ProxyHandler({} if here else None))
    opener.add_handler(urllib.request.HTTPHandler())
    opener.add_handler(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    return opener
