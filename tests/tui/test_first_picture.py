"""The first picture: GPUs on the screen while Textual is still being imported, and a terminal that is left as it was."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import psutil
import pyte
import pytest

from gputop.device import Device, FirstLook, Host
from gputop.settings.values import Settings
from gputop.snapshot import Snapshot
from gputop.tui.first_picture import picture, written
from tests import nvml_sim
from tests.patience import DEADLINE_S
from tests.terminal import Terminal
from tests.tui.test_simulated_screen import GPUTOP, different_box, gpu_row

WAITS = """
import os, sys, time
while not os.path.exists(os.environ["TEXTUAL_MAY_COME"]):
    time.sleep(0.02)
sys.path.remove(os.path.dirname(__file__))
del sys.modules["textual"]
import textual
"""
"""Replaces textual, and becomes it once a file is there."""
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "textual.py").write_text(WAITS)
    changed = nvml_sim.environment(different_box(os.getpid()).write(tmp_path / "scenario"))
    path = os.pathsep.join(filter(None, (str(tmp_path / "slow"), os.environ.get("PYTHONPATH"))))
    return changed | {"PYTHONPATH": path, "TEXTUAL_MAY_COME": str(tmp_path / "go")}


def attributes(terminal: Terminal) -> list[Any]:
    return termios.tcgetattr(terminal._master)


def test_gpus_are_on_the_screen_before_textual_is_imported(tmp_path: Path, environment: dict[str, str]) -> None:
    with Terminal([*GPUTOP, "-i", "500ms"], environment) as terminal:
        before = attributes(terminal)
        terminal.wait_for(lambda text: gpu_row(text, 7) == (87, "68.0"))
        assert "SIMULATED" in terminal.text()
        assert "H100" in terminal.text()
        placed = terminal.find("1 GPUs")
        for size in ((20, 5), (80, 24)):
            terminal.resize(*size)
            terminal.wait_for(lambda text: "1 GPUs" in text)
        terminal.wait_for(lambda text: gpu_row(text, 7) == (87, "68.0"))
        terminal.resize(160, 50)
        terminal.wait_for(lambda text: gpu_row(text, 7) == (87, "68.0"))
        terminal.press("?")
        (tmp_path / "go").touch()
        terminal.wait_for("Keys")  # what was typed meanwhile has opened the help
        terminal.press("escape")
        terminal.wait_for(lambda text: "3 Processes" in text and terminal.find("1 GPUs") == placed)
        assert terminal.received.count(ENTER) == 1, "the screen is entered once: entering it again clears it"
        terminal.press("q")
        assert terminal.wait_exit() == 0
        assert attributes(terminal) == before


def test_the_picture_follows_a_window_that_is_dragged(environment: dict[str, str]) -> None:
    with Terminal([*GPUTOP], environment) as terminal:
        terminal.wait_for(lambda text: gpu_row(text, 7) == (87, "68.0"))
        for _ in range(200000):
            os.kill(terminal.process.pid, signal.SIGWINCH)  # each of a drag's may come while the one before is being handled
        terminal.resize(20, 5)
        terminal.wait_for(lambda text: "1 GPUs" in text)
        terminal.resize(160, 50)
        terminal.wait_for(lambda text: gpu_row(text, 7) == (87, "68.0"), timeout_s=20)


def test_the_picture_stays_with_its_age_until_the_first_snapshot_comes(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "slow" / "textual.py").unlink()
    (tmp_path / "slow" / "pynvml.py").write_text(WAITS.replace("textual", "pynvml"))
    with Terminal([*GPUTOP], environment) as terminal:
        terminal.wait_for(lambda text: gpu_row(text, 7) == (87, "68.0") and "STALE 2" in text)
        placed = terminal.find("1 GPUs")
        assert b"starting" not in terminal.received
        terminal.press("?")
        terminal.wait_for("Keys")
        (tmp_path / "go").touch()
        terminal.press("escape")
        terminal.wait_for(lambda text: "3 Processes" in text and terminal.find("1 GPUs") == placed and "STALE" not in text)
        terminal.press("q")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_meanwhile_restores_the_terminal(environment: dict[str, str], number: signal.Signals) -> None:
    with Terminal([*GPUTOP], environment) as terminal:
        before = attributes(terminal)
        terminal.wait_for(lambda text: gpu_row(text, 7))
        assert attributes(terminal) != before
        sampler = psutil.Process(terminal.process.pid).children()
        if number == signal.SIGINT:
            terminal.press("ctrl+c")
        else:
            terminal.process.send_signal(number)
        assert terminal.wait_exit() == 128 + number
        assert terminal.received.rpartition(ENTER)[2].count(LEAVE) == 1
        assert attributes(terminal) == before
        assert not psutil.wait_procs(sampler, DEADLINE_S)[1]


def test_without_a_first_look_the_terminal_stays_as_it_is_until_textual_draws(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with Terminal([*GPUTOP], environment | {"TERM": "dumb"}) as terminal:
        sampler = psutil.Process(terminal.process.pid).children
        while not any("agent" in child.cmdline() for child in sampler()):
            assert terminal.process.poll() is None
        terminal.press("ctrl+c")
        assert terminal.wait_exit() in (130, -signal.SIGINT)
        assert ENTER not in terminal.received
        assert LEAVE not in terminal.received


@pytest.mark.parametrize("size", [(160, 50), (80, 24), (20, 5), (3, 2), (1, 1)])
def test_a_picture_fits_its_terminal_and_obeys_no_name(size: tuple[int, int]) -> None:
    columns, rows = size
    devices = [Device(0, "u0", "H100\x1b[31m\x07\u202e", utilization_percent=97.0, memory_used_bytes=2**30, state="lost")]
    devices += [Device(index, f"u{index}", "H100 名", utilization_percent=None) for index in range(1, 16)]
    host = Host("host\x9b2J\n", source="nvml")
    look = FirstLook(0.0, host, tuple(devices))
    few = FirstLook(0.0, host, tuple(devices[1:3]))
    whole = Snapshot(0, 0.0, 0.0, 1.0, host, tuple(devices))
    for seen, settings in (
        (look, Settings()),
        (look, Settings(ascii=True)),
        (few, Settings()),
        (whole, Settings(density="full")),
    ):
        shown = picture(seen, settings, columns, rows)
        assert 0 < len(shown) <= rows
        assert all(row.isprintable() and len(row) <= columns for row in shown)
        assert not settings.ascii or all(map(str.isascii, shown))
        assert columns < 80 or any("N/A" in row for row in shown)
        rule = next((row for row in shown if row.lstrip("─- ").startswith("1 GPU")), "")
        assert columns < 80 or (len(rule), rule[-1]) == (columns, "-" if settings.ascii else "─")


def test_a_picture_is_drawn_again_by_its_changed_rows(tmp_path: Path) -> None:
    pictures = [["gputop 12:00:01", "", "0  98%  日本"], ["gputop 12:00:02", "", "0  7%"], ["gputop 12:00:02", "", "0  7%"]]
    kept = pyte.Screen(20, 5)
    stream = pyte.Stream(kept)
    before = None
    for texts in pictures:
        stream.feed(written(texts, before))
        assert [row.rstrip().replace("日 本 ", "日本") for row in kept.display[:3]] == texts
        before = texts
    assert written(pictures[1], pictures[0]) == "\x1b[1;1H\x1b[Kgputop 12:00:02\x1b[3;1H\x1b[K0  7%"
    assert written(pictures[2], pictures[1]) == ""
    assert "\x1b[2J" in written(pictures[2], pictures[1][:2]), "another number of rows"


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("gputop.tui.first_picture", ("textual", "asyncio", "gputop.snapshot", "gputop.process")),
        ("gputop.agent.first_look, gputop.sources.nvml.first_look", ("json", "typing", "pynvml", "gputop.snapshot")),
        ("gputop.__main__, gputop.agent.process, gputop.startup.gc_freeze", ("argparse", "dataclasses", "json")),
        (
            "gputop.agent.serving, gputop.cli.output.once",
            ("asyncio", "gputop.questions", "gputop.sources.nccl.answer", "tomllib"),
        ),
        ("gputop.untracked.curves", ("gputop.doctor", "gputop.jobs.store", "gputop.tracking.printed.lines", "tempfile")),
        ("gputop.tui.app, gputop.tui.screens.dashboard", ("gputop.hosts", "zipfile")),
        ("gputop.cli.main", ("gputop.snapshot", "gputop.doctor", "gputop.cli.completion", "textwrap", "tomllib")),
    ],
)
def test_what_the_first_picture_waits_for_imports_little(module: str, unwanted: tuple[str, ...]) -> None:
    code = f"import sys; before = {{*sys.modules}}; import {module}; print(*({{*sys.modules}} - before))"
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env=_library(), check=True
    ).stdout
    assert not [name for name in unwanted if name in loaded.split()]


def test_the_screen_loads_no_openssl_and_leaves_it_to_others() -> None:
    code = """
import sys
from gputop.startup.light_imports import import_asyncio
import_asyncio()
import gputop.tui.app, gputop.tui.screens.dashboard, gputop.tui.lazy_doctor
print("_ssl" in sys.modules)
import ssl, http.client
print(ssl.create_default_context() is not None, hasattr(http.client, "HTTPSConnection"))
"""
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=_library(), check=True)
    assert run.stdout.split() == ["False", "True", "True"]


def test_what_textual_imports_and_a_screen_never_uses_is_loaded_by_its_first_use() -> None:
    code = """
import sys
from gputop.startup.light_imports import for_textual, import_asyncio, import_ctypes, import_library, import_processes
import_ctypes()
import_processes()
import_library()
import_asyncio()
with for_textual():
    import gputop.tui.app, gputop.tui.screens.dashboard, gputop.tui.lazy_doctor
unused = "ast asyncio.sslproto bz2 difflib ipaddress locale lzma mimetypes pickle platformdirs textual.widgets._directory_tree"
unused += " textual.widgets._placeholder textual.widgets._select typing_extensions urllib.parse uuid"
unused += " rich.panel rich.table tempfile unicodedata"
print(*[name for name in unused.split() if name in sys.modules], "loaded")
import typing_extensions
from textual.app import user_downloads_path
from textual.suggestions import get_close_matches
print(user_downloads_path().name != "", *get_close_matches("blu", ["blue", "red"]))
print(typing_extensions.__file__ is not None, typing_extensions.deprecated is not None)
from textual.notifications import Notification
from textual.validation import URL
print(len(Notification("said").identity), URL().validate("https://example.org/").is_valid)
from rich.style import Style
from textual.widgets import DirectoryTree, Select
print(Style(meta={"at": 1}).meta["at"], DirectoryTree(".").path, Select([("one", 1)]).prompt)
import ctypes.util
print(ctypes.util.find_library("of-no-name"))
import inspect
from rich.markup import render
print(inspect.signature(divmod), render("[@click=f(1)]a[/]").spans[0].style.meta["@click"])
import shutil, subprocess, tempfile
with tempfile.NamedTemporaryFile() as file:
    print(shutil.disk_usage(file.name).total > 0, subprocess.run(["echo", "text"], text=True, capture_output=True).stdout)
"""
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=_library(), check=False)
    printed = ["loaded", "True blue", "True True", "36 True", "1 . Select", "None", "(x, y, /) ('f', (1,))", "True text", ""]
    assert run.stdout.splitlines() == printed, run.stderr


def _library() -> dict[str, str]:
    """Return an environment in which ``-S``, without the imports of this environment's own start, finds every package."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.parametrize("words", [("-i", "0"), ("-i",), ("--theme", "pink"), ("-i", "1", "--no-nccl-ras", "--theme")])
def test_a_wrong_command_line_leaves_no_sampler_behind(environment: dict[str, str], words: tuple[str, ...]) -> None:
    with Terminal([*GPUTOP, *words], environment) as terminal:
        assert terminal.wait_exit() == 2
        assert "gputop: " in terminal.text()
        assert ENTER not in terminal.received
    found = [p for p in psutil.process_iter(["environ"]) if (p.info["environ"] or {}).get("TEXTUAL_MAY_COME")]
    left = [p for p in found if p.info["environ"]["TEXTUAL_MAY_COME"] == environment["TEXTUAL_MAY_COME"]]
    assert not psutil.wait_procs(left, DEADLINE_S)[1]


def test_the_settings_of_the_screen_are_those_of_its_sampler(tmp_path: Path, environment: dict[str, str]) -> None:
    """It starts before they are read."""
    (tmp_path / "go").touch()
    config = tmp_path / "config.toml"
    config.write_text('gpus = ["3", "5"]\ninterval_s = 0.4\n')
    with Terminal([*GPUTOP], environment | {"GPUTOP_CONFIG": str(config)}) as terminal:
        text = terminal.wait_for(lambda text: re.search(r"^. +3 +43%", text, re.MULTILINE) or "43%" in text)
        assert "2 × H100" in text
        assert "0.4 s" in text
        terminal.press("q")
        assert terminal.wait_exit() == 0
