"""Draws gputop, nvitop, nvtop and btop side by side: the same eight simulated H100s, the same training, the same terminal.

Eight ranks of a tracked run occupy the GPUs. Each tool runs in its own tmux, is captured with its colors once it has a history,
and becomes a small SVG in ``docs/pictures``; the page that shows them is written too. btop shows GPUs
from version 1.3 on, if it was built to. A tool that is not installed is named on the page.

    make picture
    python benchmarks/_pictures.py [--size 110x32] [--seconds 45] [--nvtop COMMAND] [--btop COMMAND]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from common.ending import ended_by_signals

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.ansi import AnsiDecoder  # noqa: E402 - after the checkout
from rich.cells import cell_len  # noqa: E402
from rich.color_triplet import ColorTriplet  # noqa: E402
from rich.style import Style  # noqa: E402
from rich.terminal_theme import TerminalTheme  # noqa: E402
from rich.text import Text  # noqa: E402

from tests import nvml_sim  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
GPUS = 8
CELL_X, CELL_Y, FONT = 8.0, 17.0, 13.3
WORDS = re.compile(r"[^ ]+(?: [^ ]+)*")
TRAINING = """
import math, os, sys, time, gputop
rank = int(os.environ["RANK"])
run = gputop.init(id="llama-sft", name="llama-sft")
for step in range(10**9):
    if rank == 0 or step % 10 == 0:
        run.log({"loss": 0.4 + 2.2 * math.exp(-step / 120) + 0.05 * math.sin(step * 1.7 + rank), "step_s": 0.2,
                 "phase/backward": 0.11, "phase/forward": 0.05, "phase/communication": 0.02}, step=step)
    time.sleep(0.2)
"""
_DIM = ("1d1f21", "cc5050", "60b460", "ccaa50", "5a8cd2", "aa78c8", "50b4be", "d3d7dc")
_BRIGHT = ("6e767d", "ff7b72", "6bd17f", "f0b64a", "79b8ff", "c4a2ff", "7fdcc0", "ffffff")


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[:2], 16), int(color[2:4], 16), int(color[4:], 16)


THEME = TerminalTheme(_rgb("101418"), _rgb("d3d7dc"), list(map(_rgb, _DIM)), list(map(_rgb, _BRIGHT)))

BTOP_SETTINGS = 'shown_boxes = "gpu0 gpu1"\n'
"""btop shows each GPU in a box of its own, and none unless told to: two fit into the picture."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program to draw: its command, and the command that prints its version."""

    name: str
    command: tuple[str, ...]
    version: tuple[str, ...]


def main() -> None:
    """Capture and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="110x32", help="columns x rows (default 110x32)")
    parser.add_argument("--seconds", type=float, default=45.0, help="how long each tool watches (default 45)")
    parser.add_argument("--nvtop", default="nvtop", help="its command (default nvtop)")
    parser.add_argument("--btop", default="btop", help="its command (default btop); 1.3 or newer, built with GPU support")
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    if shutil.which("tmux") is None:
        raise SystemExit("tmux is not installed, and the tools are captured in it.")
    nvitop = str(Path(sys.executable).parent / "nvitop")
    tools = [
        Tool("gputop", (sys.executable, "-m", "gputop", "-i", "1"), (sys.executable, "-m", "gputop", "--version")),
        Tool("nvitop", (nvitop, "--interval", "1"), (nvitop, "--version")),
        Tool("nvtop", (options.nvtop,), (options.nvtop, "--version")),
        Tool("btop", (options.btop,), (options.btop, "--version")),
    ]
    here = [tool for tool in tools if shutil.which(tool.command[0])]
    versions = {tool.name: version(tool) for tool in here}
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        for tool, captured in capture(here, columns, rows, options.seconds, Path(name)):
            (PICTURES / f"{tool.name}.svg").write_text(drawn(captured, columns, rows, f"{tool.name} (simulated GPUs)"))
    (PICTURES / "README.md").write_text(page(options.size, versions, [tool.name for tool in tools if tool not in here]))


def version(tool: Tool) -> str:
    """Return the version that a tool reports."""
    told = subprocess.run(tool.version, capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+[\w.]*", told.stdout + told.stderr)
    return found[0] if found else "unknown version"


def capture(tools: Sequence[Tool], columns: int, rows: int, seconds: float, folder: Path) -> Iterator[tuple[Tool, str]]:
    """Start the training and every tool, and yield what each shows after this many seconds, with its colors."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    (folder / "train.py").write_text(TRAINING)
    (folder / ".config" / "btop").mkdir(parents=True)
    (folder / ".config" / "btop" / "btop.conf").write_text(BTOP_SETTINGS)
    base = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GPUTOP_DIR": str(state),
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
    }
    # The tools show this command line, so it must not contain a path of the machine on which the pictures are made.
    ranks = [
        subprocess.Popen(
            ["python", "train.py", "--model", "llama-8b"],
            executable=sys.executable,
            cwd=folder,
            env={**base, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(GPUS), "LOCAL_WORLD_SIZE": str(GPUS)},
        )
        for rank in range(GPUS)
    ]
    socket = str(folder / "tmux")
    scenario = nvml_sim.living_box(GPUS, pids=tuple(rank.pid for rank in ranks)).write(folder / "scenario")
    simulated = {key: value for key, value in nvml_sim.environment(scenario).items() if os.environ.get(key) != value}
    tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
    try:
        for tool in tools:
            given = {**base, **simulated, "TERM": "tmux-256color", "COLORTERM": "truecolor"}
            words = ["env", "-i", *(f"{key}={value}" for key, value in given.items()), *tool.command]
            subprocess.run(
                [*tmux, "new-session", "-d", "-s", tool.name, "-x", str(columns), "-y", str(rows), "-c", str(folder), *words],
                check=True,
            )
        time.sleep(seconds)
        for tool in tools:
            shown = subprocess.run(
                [*tmux, "capture-pane", "-e", "-p", "-t", tool.name], check=True, capture_output=True, text=True
            )
            yield tool, shown.stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
        for rank in ranks:
            rank.kill()
            rank.wait()


def drawn(captured: str, columns: int, rows: int, title: str) -> str:
    """Return a terminal's cells as SVG: a text for each row, a tspan for each color, a rectangle for each background."""
    texts, behind = [], []
    for row, line in enumerate(AnsiDecoder().decode(captured)):  # colors continue from line to line
        at, spans = 0, []
        for text, style in pieces(line):
            cells = cell_len(text)
            ink, paper = colors(style)
            if paper is not None:
                place = f'x="{at * CELL_X:g}" y="{row * CELL_Y:g}" width="{cells * CELL_X:g}" height="{CELL_Y:g}"'
                behind.append(f'<rect {place} fill="{paper}"/>')
            weight = ' font-weight="bold"' if style.bold else ""
            for word in WORDS.finditer(text):  # each at its own position: viewers treat spaces differently
                x, wide = (at + cell_len(text[: word.start()])) * CELL_X, cell_len(word[0]) * CELL_X
                spans.append(f'<tspan x="{x:g}" textLength="{wide:g}" fill="{ink}"{weight}>{escape(word[0])}</tspan>')
            at += cells
        if spans:
            texts.append(f'<text y="{row * CELL_Y + FONT:g}">{"".join(spans)}</text>')
    width, height = columns * CELL_X, (rows + 1.5) * CELL_Y
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -26 {width + 16:g} {height + 10:g}" font-size="{FONT}" '
        'font-family="ui-monospace,Menlo,DejaVu Sans Mono,monospace" xml:space="preserve">\n'
        f'<rect x="-8" y="-26" width="{width + 16:g}" height="{height + 10:g}" rx="6" fill="#101418"/>\n'
        f'<text y="-8" fill="#98a1ab">{escape(title)}</text>\n{"".join(behind)}\n' + "\n".join(texts) + "\n</svg>\n"
    )


def pieces(line: Text) -> Iterator[tuple[str, Style]]:
    """Yield the stretches of a line that look alike."""
    now, text = Style.null(), ""
    for index, character in enumerate(line.plain):
        over = [span.style for span in line.spans if span.start <= index < span.end]
        style = Style.combine([Style.null(), *(one for one in over if isinstance(one, Style))])
        if style != now and text:
            yield text, now
            text = ""
        now, text = style, text + character
    if text:
        yield text, now


def colors(style: Style) -> tuple[str, str | None]:
    """Return the color of the characters and of the background; None: the terminal's own."""
    ink = style.color.get_truecolor(THEME) if style.color is not None else THEME.foreground_color
    paper = style.bgcolor.get_truecolor(THEME, foreground=False) if style.bgcolor is not None else None
    if style.reverse:
        ink, paper = paper or THEME.background_color, ink
    if style.dim:
        ink = ColorTriplet(*((one + other) // 2 for one, other in zip(ink, THEME.background_color, strict=True)))
    return ink.hex, None if paper in (None, THEME.background_color) else (paper.hex if paper is not None else None)


def page(size: str, versions: dict[str, str], missing: Sequence[str]) -> str:
    """Return the page that shows the pictures."""
    shown = "\n\n".join(
        f"## {name} {told}\n\n![{name} {told} on eight simulated H100s]({name}.svg)" for name, told in versions.items()
    )
    left = f" Not installed where they were made: {', '.join(missing)}." if missing else ""
    return f"""# Side by side

The same minute on the same machine, in {size} cells: eight **simulated** H100s, used by the eight ranks of one training that
gputop tracks. No GPU is at work: a library in the driver's place plays the readings, and every tool loads it as the driver's.
`benchmarks/_pictures.py` captured and drew what each program wrote to its terminal, with its own defaults.{left} btop, from
version 1.3 on, shows each GPU in its own box, but none by default: it was started with as many boxes as fit.

{shown}
"""


if __name__ == "__main__":
    with ended_by_signals():
        main()
