"""Whatever private name of Textual changes, the dashboard draws the same: then Textual's own compositor draws it."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import textual
from rich.cells import cached_cell_len
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate
from textual._styles_cache import StylesCache
from textual.color import Color
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region, Spacing
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.strip import Strip

from gputop import tui
from gputop.tui.terminal.private_textual import (
    CHECKS,
    can_restart,
    crops_left,
    first_mismatch,
    forget_removed_widgets,
    install_compositor,
    restart,
)
from tests.terminal import Terminal
from tests.tui.dashboards import DashboardApp
from tests.tui.terminal import changing_dashboard

TEXTUAL = Path(textual.__file__).parent
ROOT = Path(__file__).parents[3]
SIZE = (100, 30)


class Rename(NamedTuple):
    """In the modules ``where`` of Textual, ``pattern`` becomes ``replacement``; ``file`` gets another name."""

    pattern: str
    replacement: str
    where: str = "*.py"
    file: str = ""


RENAMES = {
    "textual._compositor": Rename(r"\btextual\._compositor\b", "textual._composer", file="_compositor.py"),
    "CompositorUpdate": Rename(r"\bCompositorUpdate\b", "ScreenUpdate"),
    "CompositorUpdate.render_segments": Rename(r"\brender_segments\b", "render_text"),
    "ChopsUpdate": Rename(r"\bChopsUpdate\b", "PartialUpdate"),
    "ChopsUpdate.chops": Rename(r"\bself\.chops\b", "self.pieces", "_compositor.py"),
    "ChopsUpdate.spans": Rename(r"\bself\.spans\b", "self.stretches", "_compositor.py"),
    "ChopsUpdate.chop_ends": Rename(r"\bself\.chop_ends\b", "self.piece_ends", "_compositor.py"),
    "Compositor": Rename(r"\bCompositor\b", "Composer"),
    "Compositor._dirty_regions": Rename(r"\b_dirty_regions\b", "_changed_regions"),
    "Compositor._regions_to_spans": Rename(r"\b_regions_to_spans\b", "_spans_of"),
    "Compositor.visible_widgets": Rename(r"\bvisible_widgets\b", "shown_widgets"),
    "Compositor.render_partial_update": Rename(r"\brender_partial_update\b", "render_changes"),
    "LayoutUpdate": Rename(r"\bLayoutUpdate\b", "WholeUpdate"),
    "LayoutUpdate.strips": Rename(r"\bself\.strips\b", "self.rows", "_compositor.py"),
    "LayoutUpdate.region": Rename(r"\bself\.region\b", "self.place", "_compositor.py"),
    "App._display": Rename(r"\b_display\b", "_show_update"),
    "App._driver": Rename(r"\b_driver\b", "_terminal_driver"),
    "App._batch_count": Rename(r"\b_batch_count\b", "_batches"),
    "Driver._app": Rename(r"\bself\._app\b", "self._owner", "*driver.py"),
    "Driver._loop": Rename(r"\bself\._loop\b", "self._event_loop", "*driver.py"),
    "LinuxDriver._key_thread": Rename(r"\b_key_thread\b", "_reader", "*driver.py"),
    "LinuxDriver._must_signal_resume": Rename(r"\b_must_signal_resume\b", "_is_to_signal", "*driver.py"),
    "LinuxDriver._sigtstp_application": Rename(r"\b_sigtstp_application\b", "_on_sigtstp", "*driver.py"),
    "Compositor.render_update": Rename(r"\brender_update\b", "render_all"),
    "Widget._layout_required": Rename(r"\b_layout_required\b", "_needs_layout"),
    "Widget._repaint_required": Rename(r"\b_repaint_required\b", "_needs_paint"),
    "Compositor.update_widgets": Rename(r"\bupdate_widgets\b", "take_widgets"),
    "MessagePump.check_idle": Rename(r"\bcheck_idle\b", "look_for_idleness"),
    "Widget._check_refresh": Rename(r"\b_check_refresh\b", "_look_for_changes"),
    "Screen._refresh_layout": Rename(r"\b_refresh_layout\b", "_lay_out_anew"),
    "Screen._compositor_refresh": Rename(r"\b_compositor_refresh\b", "_paint"),
    "Screen._compositor": Rename(r"(?<!textual)\._compositor\b", "._composer"),
    "Strip.render_style": Rename(r"\brender_style\b", "render_styled", "strip.py"),
    "Strip.render_ansi": Rename(r"\brender_ansi\b", "render_codes", "strip.py"),
}


@cache
def installed_textual() -> dict[Path, str | None]:
    """Return the files of the installed Textual, and the text of those in Python."""
    return {path: path.read_text() if path.suffix == ".py" else None for path in TEXTUAL.rglob("*") if not path.is_dir()}


def renamed_textual(folder: Path, rename: Rename) -> None:
    """Make a Textual in ``folder`` that differs from the installed one only by ``rename``."""
    changed = 0
    for path, source in installed_textual().items():
        target = folder / "textual" / path.relative_to(TEXTUAL)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.name == rename.file:
            target = target.with_name(rename.replacement.rpartition(".")[2] + ".py")
        if source is not None and path.match(rename.where):
            text, count = re.subn(rename.pattern, rename.replacement, source)
            changed += count
            if count:
                target.write_text(text)
                continue
        target.symlink_to(path)
    assert changed


@pytest.fixture(scope="module")
def wanted() -> str:
    """What the terminal shows in the end."""

    async def drawn() -> str:
        app = DashboardApp(changing_dashboard.second())
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause()
            return "\n".join(row.rstrip() for row in app.text())

    return asyncio.run(drawn())


def log_of(terminal: Terminal, log: Path, wanted: str) -> list[str]:
    """Check that the terminal shows what is wanted, leave, and return what was logged."""
    terminal.wait_for(lambda text: text == wanted)
    terminal.press("\x11")
    assert terminal.wait_exit() == 0
    return [line for line in log.read_text().splitlines() if line.startswith("gputop:")] if log.exists() else []


def dashboard(log: Path, *first_on_path: Path) -> Terminal:
    environment = {
        "TEXTUAL_LOG": str(log),
        "TEXTUAL_ANIMATIONS": "none",
        # Compiled files of the other Textual must not get into the caches of the installed one.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(map(str, (*first_on_path, ROOT))),
    }
    command = (sys.executable, "-m", "tests.tui.terminal.changing_dashboard")
    return Terminal(command, environment, *SIZE)


@pytest.mark.parametrize("name", CHECKS)
def test_with_a_name_changed_stock_textual_draws_the_same(name: str, wanted: str, tmp_path: Path) -> None:
    renamed_textual(tmp_path, RENAMES[name])
    with dashboard(tmp_path / "log", tmp_path) as terminal:
        (line,) = log_of(terminal, tmp_path / "log", wanted)
    assert f" {name} " in line


def test_with_the_textual_that_is_known_nothing_is_logged_and_less_is_sent(wanted: str, tmp_path: Path) -> None:
    with dashboard(tmp_path / "log") as terminal:
        assert log_of(terminal, tmp_path / "log", wanted) == []
    renamed_textual(tmp_path, RENAMES["Screen._compositor"])
    with dashboard(tmp_path / "log", tmp_path) as stock:
        assert len(log_of(stock, tmp_path / "log", wanted)) == 1
    assert len(terminal.received) < len(stock.received)


def test_every_private_name_in_use_is_checked() -> None:
    """Every private name of Textual that our modules use has a check."""
    assert set(CHECKS) == set(RENAMES)
    used = set()
    for module in (ROOT / "gputop" / "tui").rglob("*.py"):
        text = module.read_text()
        used |= {f"textual.{name}" for name in re.findall(r"\btextual\.(_\w+)", text)}
        used |= set(re.findall(r"from textual\._compositor import (.+)", text))
    names = {name for line in used for name in line.split(", ")}
    names -= {"textual._styles_cache", "textual._xterm_parser"}  # may be missing: see below
    assert names == {"textual._compositor", "ChopsUpdate", "Compositor", "CompositorUpdate", "LayoutUpdate"}
    assert names <= set(CHECKS)
    assert foreign_names() - NOT_OF_TEXTUAL <= {name.rpartition(".")[2] for name in CHECKS}


NOT_OF_TEXTUAL = {"_exit", "_replace", "__dataclass_params__"}
"""Python's."""


def foreign_names() -> set[str]:
    """Return the attributes with an underscore that the screen's modules use and do not define: somebody else's."""
    used, ours = set(), set()
    for module in (ROOT / "gputop" / "tui").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                is_own = isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
                (ours if is_own else used).add(node.attr)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                ours.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                ours.add(node.target.id)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "_sets"):
                used |= {item.value for item in node.args[1:2] if isinstance(item, ast.Constant) and item.value[:1] == "_"}
    return used - ours


def test_what_is_kept_of_removed_widgets_is_forgotten() -> None:
    keepers = (StylesCache.get_inner_outer, Region.intersection, Region.translate, Region.union, Region.grow, Region.shrink)
    for at in range(9):
        region = Region(at, 0, 1, 1)
        StylesCache.get_inner_outer(StylesCache(), Color(at, 0, 0), Color(0, 0, 0))
        region.intersection(region)
        region.translate((1, 1))
        region.union(region)
        region.grow((1, 1, 1, 1))
        region.shrink(Spacing(0, 0, 0, 0))
        cached_cell_len(f"…{at}")
    assert all(keeper.cache_info().currsize >= 9 for keeper in (*keepers, cached_cell_len))
    forget_removed_widgets()
    assert not any(keeper.cache_info().currsize for keeper in (*keepers, cached_cell_len))


def test_a_textual_that_keeps_no_lines_of_removed_widgets_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("textual._styles_cache.StylesCache.get_inner_outer", lambda *arguments: ())
    forget_removed_widgets()
    monkeypatch.delattr("textual._styles_cache.StylesCache")
    forget_removed_widgets()


class Shape(NamedTuple):
    """How something of the known name may have changed."""

    name: str
    owner: type
    attribute: str
    value: object


def _swapped(regions: Iterable[Region]) -> Iterable[tuple[int, int, int]]:
    for x, y, width, _ in regions:
        yield (x, x + width, y)


def _update(change: Callable[[ChopsUpdate], None]) -> Callable[[Compositor], ChopsUpdate]:
    def render(self: Compositor) -> ChopsUpdate:
        update = ChopsUpdate([{0: None}], [(0, 1, 3)], [[4]])
        change(update)
        self._dirty_regions.clear()
        return update

    return render


SHAPES = [
    Shape("CompositorUpdate.render_segments", CompositorUpdate, "render_segments", lambda self, console, size: ""),
    Shape("CompositorUpdate.render_segments", CompositorUpdate, "render_segments", lambda self: ""),
    Shape("Compositor._regions_to_spans", Compositor, "_regions_to_spans", staticmethod(_swapped)),
    Shape("Compositor.visible_widgets", Compositor, "visible_widgets", lambda self: {}),
    Shape("Compositor.visible_widgets", Compositor, "visible_widgets", property(lambda self: {})),
    Shape("Compositor.render_partial_update", Compositor, "render_partial_update", lambda self, full: None),
    Shape("Compositor.render_partial_update", Compositor, "render_partial_update", lambda self: []),
    Shape(
        "ChopsUpdate.spans",
        Compositor,
        "render_partial_update",
        _update(lambda update: setattr(update, "spans", [Region(1, 0, 2, 1)])),
    ),
    Shape(
        "ChopsUpdate.chops",
        Compositor,
        "render_partial_update",
        _update(lambda update: setattr(update, "chops", [[None]])),
    ),
    Shape(
        "ChopsUpdate.chop_ends",
        Compositor,
        "render_partial_update",
        _update(lambda update: setattr(update, "chop_ends", [4])),
    ),
    Shape("Strip.render_ansi", Strip, "render_ansi", staticmethod(lambda style: "1")),
    Shape("Strip.render_style", Strip, "render_style", staticmethod(lambda text, style, system: "")),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_another_shape_is_noticed(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_mismatch() is None
    monkeypatch.setattr(shape.owner, shape.attribute, shape.value)
    assert first_mismatch() == shape.name


def driver(**changes: object) -> object:
    """Textual's driver, not started: that would take the terminal and the signals of the tests."""
    made = object.__new__(type("Changed", (LinuxDriver,), {name: value for name, value in changes.items() if callable(value)}))
    vars(made).update({"_must_signal_resume": False, **{name: value for name, value in changes.items() if not callable(value)}})
    return made


def test_a_driver_is_started_again_only_if_it_is_the_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_restart(driver())
    for changes in (
        {"_must_signal_resume": None},
        {"_must_signal_resume": 0},
        {"start_application_mode": lambda self: None},
        {"_sigtstp_application": lambda self, *_: None},
    ):
        assert not can_restart(driver(**changes)), changes
    assert not can_restart(None)
    assert not can_restart(object())
    calls: list[str] = []
    monkeypatch.setattr(LinuxDriver, "suspend_application_mode", lambda self: calls.append("suspend"))
    monkeypatch.setattr(LinuxDriver, "resume_application_mode", lambda self: calls.append("resume"))
    after_stop = driver()
    restart(after_stop)
    assert (calls, vars(after_stop)["_must_signal_resume"]) == (["suspend", "resume"], True)
    restart(driver(_must_signal_resume=True))
    assert calls[2:] == ["resume"], "after SIGTSTP the driver has left the screen by itself"


def test_only_one_module_names_what_is_private_of_the_driver() -> None:
    named = {path.name for path in (ROOT / "gputop").rglob("*.py") if "_must_signal_resume" in path.read_text()}
    assert named == {"private_textual.py"}


def test_a_screen_that_brings_its_own_compositor_keeps_it() -> None:
    class OwnCompositor(Compositor):
        pass

    screen = Screen[None]()
    screen._compositor = OwnCompositor()
    install_compositor(screen)
    assert type(screen._compositor) is OwnCompositor
    assert not crops_left(screen)


def test_the_part_that_textual_could_take_knows_nothing_of_gputop() -> None:
    module = ROOT / "gputop" / "tui" / "terminal" / "partial_update.py"
    assert "gputop" not in module.read_text()
    code = (
        "import sys, importlib.util as util; "
        f"spec = util.spec_from_file_location('partial_update', {str(module)!r}); "
        "module = util.module_from_spec(spec); sys.modules['partial_update'] = module; spec.loader.exec_module(module); "
        "print(any(name.partition('.')[0] == 'gputop' for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n"


def test_cells_of_a_style_go_together_and_styles_are_encoded_as_differences() -> None:
    from rich.console import Console

    from gputop.tui.terminal.partial_update import PartialUpdate, Piece

    red, bold_red, linked = Style.parse("red"), Style.parse("bold red"), Style.parse("red link https://example.org")
    update = PartialUpdate(
        [Piece(2, 0, [("a", red), ("b", red), ("c", bold_red)]), Piece(0, 3, [("d", red), ("e", Style.null())])]
    )
    console = Console(color_system="standard", force_terminal=True)
    assert update.render_segments(console) == ("\x1b[4;2He\x1b[31m\x1b[1;3Hab\x1b[4;1Hd\x1b[1m\x1b[1;5Hc\x1b[0m")
    near = PartialUpdate([Piece(0, 0, [("日", red)]), Piece(3, 0, [("x", red)]), Piece(9, 0, [("y", red)])])
    assert near.render_segments(console) == "\x1b[31m\x1b[1;1H日\x1b[Cx\x1b[5Cy\x1b[0m"
    shown = PartialUpdate([Piece(0, 0, [("x", linked)])]).render_segments(console)
    assert "https://example.org" in shown
    colorless = Console(color_system=None)
    assert PartialUpdate([Piece(0, 0, [("x", Style.parse("bold"))])]).render_segments(colorless) == ("\x1b[1m\x1b[1;1Hx\x1b[0m")


@cache
def own_names(cls: type) -> set[str]:
    """Return the names that a class gives to its methods, and in them to attributes of its instances."""
    names = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            names.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def names_above(cls: type) -> set[str]:
    """Return the private names that Textual's classes above a class have."""
    return set().union(*(own_names(base) for base in cls.__mro__ if base.__module__.startswith("textual.")))


def test_no_widget_or_screen_has_a_private_name_of_textual_by_accident() -> None:
    """Such as ``_name``, which is behind a widget's ``name``."""
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(tui.__path__, "gputop.tui.")]
    classes = {
        cls for module in modules for cls in vars(module).values() if isinstance(cls, type) and issubclass(cls, MessagePump)
    }
    ours = {cls for cls in classes if cls.__module__.startswith("gputop.")}
    assert len(ours) > 50
    probed = {name.rpartition(".")[2] for name in CHECKS}
    wrong = {cls.__name__: taken for cls in ours if (taken := own_names(cls) & names_above(cls) - probed)}
    assert not wrong
