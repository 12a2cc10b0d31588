"""Every private name of Textual that gputop uses, and a check that each still behaves as expected.

A screen gets the sparing compositor, and the app the patient driver, only if all checks pass. Otherwise Textual's own draw the
same screen with more bytes, and one line in Textual's log names the first mismatch. The checks run once per process. If the
driver's restart is not as expected, Textual rather than gputop restarts it after a SIGSTOP.
"""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from textual import log, messages
from textual.app import App
from textual.driver import Driver
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

_MODULE = "textual._compositor"
_BOLD = Style(bold=True)


def _private(name: str) -> Any:
    return getattr(import_module(_MODULE), name)


def _parameters(of: Any) -> list[str]:
    return list(inspect.signature(of).parameters)


def _sample_update() -> Any:
    """Return Textual's partial update of the cells [1, 3) of an empty screen of 4 cells by 1."""
    compositor = _private("Compositor")()
    compositor.size = Size(4, 1)
    compositor._dirty_regions.add(Region(1, 0, 2, 1))
    update = compositor.render_partial_update()
    return update if not compositor._dirty_regions else None


def _has_dirty_regions() -> bool:
    return bool(_private("Compositor")()._dirty_regions == set())


def _has_visible_widgets() -> bool:
    """Check the entry's type through the annotation: an empty screen has no entries to inspect."""
    compositor = _private("Compositor")
    annotated = inspect.get_annotations(compositor.visible_widgets.fget)["return"]
    return annotated == "dict[Widget, tuple[Region, Region]]" and bool(compositor().visible_widgets == {})


def _has_regions_to_spans() -> bool:
    spans = _private("Compositor")()._regions_to_spans({Region(1, 0, 2, 1), Region(2, 0, 4, 1)})
    return list(spans) == [(0, 1, 6)]


def _sample_layout() -> Any:
    """Return Textual's whole update of an empty screen of 4 cells by 1."""
    compositor = _private("Compositor")()
    compositor.size = Size(4, 1)
    return compositor.render_update(full=True)


def _updates_wholly() -> bool:
    return type(_sample_layout()) is _private("LayoutUpdate") and issubclass(
        _private("LayoutUpdate"), _private("CompositorUpdate")
    )


def _updates_partially() -> bool:
    compositor = _private("Compositor")
    return _parameters(compositor.render_partial_update) == ["self"] and type(_sample_update()) is _private("ChopsUpdate")


def _sets(of: type[Any], name: str) -> bool:
    """Return whether a class sets an attribute in its constructor, without constructing an app or a driver, which would take
    over the terminal."""
    return name in of.__init__.__code__.co_names


def _uses(method: Any, *names: str) -> bool:
    """Return whether a method's code has these names."""
    return set(names) <= set(method.__code__.co_names)


def _linux_driver() -> Any:
    return import_module("textual.drivers.linux_driver").LinuxDriver


_RESUMED = "_must_signal_resume"
"""The driver's flag that it has left the screen for SIGTSTP, and must notify the app when it starts it again."""


CHECKS: Mapping[str, Callable[[], bool]] = MappingProxyType(
    {
        _MODULE: lambda: bool(import_module(_MODULE)),
        "CompositorUpdate": lambda: bool(_private("CompositorUpdate")()),
        "CompositorUpdate.render_segments": lambda: (
            _parameters(_private("CompositorUpdate").render_segments) == ["self", "console"]
        ),
        "ChopsUpdate": lambda: issubclass(_private("ChopsUpdate"), _private("CompositorUpdate")),
        "Compositor": lambda: bool(_private("Compositor")()),
        "Compositor.render_update": lambda: (
            _parameters(_private("Compositor").render_update) == ["self", "full", "screen_stack", "simplify"]
        ),
        "Compositor._dirty_regions": _has_dirty_regions,
        "Compositor._regions_to_spans": _has_regions_to_spans,
        "Compositor.visible_widgets": _has_visible_widgets,
        "Compositor.render_partial_update": _updates_partially,
        "ChopsUpdate.chops": lambda: _sample_update().chops == [{0: None}],
        "ChopsUpdate.spans": lambda: _sample_update().spans == [(0, 1, 3)],
        "ChopsUpdate.chop_ends": lambda: _sample_update().chop_ends == [[4]],
        "LayoutUpdate": _updates_wholly,
        "LayoutUpdate.strips": lambda: [list(line) for line in _sample_layout().strips] == [[None]],
        "LayoutUpdate.region": lambda: _sample_layout().region == Region(0, 0, 4, 1),
        "App._display": lambda: _parameters(App._display) == ["self", "screen", "renderable"],
        "App._driver": lambda: _sets(App, "_driver"),
        "App._batch_count": lambda: _sets(App, "_batch_count"),
        "Driver._app": lambda: _sets(Driver, "_app"),
        "Driver._loop": lambda: _sets(Driver, "_loop"),
        "LinuxDriver._key_thread": lambda: _sets(_linux_driver(), "_key_thread"),
        "LinuxDriver._must_signal_resume": lambda: (
            _sets(_linux_driver(), _RESUMED) and _uses(_linux_driver().start_application_mode, _RESUMED)
        ),
        "LinuxDriver._sigtstp_application": lambda: _uses(_linux_driver()._sigtstp_application, _RESUMED),
        "Widget._layout_required": lambda: _sets(Widget, "_layout_required"),
        "Widget._repaint_required": lambda: _sets(Widget, "_repaint_required"),
        "Compositor.update_widgets": lambda: _parameters(_private("Compositor").update_widgets) == ["self", "widgets"],
        "MessagePump.check_idle": lambda: (
            _parameters(Widget.check_idle) == ["self"] and _uses(Widget.check_idle, "post_message", "Prompt")
        ),
        "Widget._check_refresh": lambda: _uses(Widget._check_refresh, "_layout_required", "Layout", "Update"),
        "Screen._compositor_refresh": lambda: (
            _parameters(Screen._compositor_refresh) == ["self"] and _uses(Screen._compositor_refresh, "render_update")
        ),
        "Screen._refresh_layout": lambda: (
            _parameters(Screen._refresh_layout) == ["self", "size", "scroll"]
            and _uses(Screen._refresh_layout, "_compositor_refresh")
        ),
        "Screen._compositor": lambda: type(Screen()._compositor) is _private("Compositor"),
        "Strip.render_style": lambda: Strip.render_style(_BOLD, "x", ColorSystem.TRUECOLOR) == "\x1b[1mx\x1b[0m",
        "Strip.render_ansi": lambda: Strip.render_ansi(_BOLD, ColorSystem.TRUECOLOR) == "1",
    }
)
"""Name -> check that the name exists and has the expected shape. A check that raises fails.

The order matters: a check may rely on the names before it.
"""


def first_mismatch() -> str | None:
    """Return the first name of ``CHECKS`` that is missing or has another shape; None if all match."""
    for name, holds in CHECKS.items():
        try:
            if not holds():
                return name
        except Exception:  # noqa: BLE001 - whatever an unknown Textual raises, the name is not as expected
            return name
    return None


@lru_cache(maxsize=1)
def _all_match() -> bool:
    """Run all checks once per process; log the first mismatch."""
    name = first_mismatch()
    if name is not None:
        log.warning(f"gputop: {name} of Textual is not what gputop knows: Textual's own compositor draws the dashboard.")
    return name is None


def install_compositor(screen: Screen[Any]) -> None:
    """Give an unmounted screen the sparing compositor if this Textual passes all checks.

    A screen with a custom compositor keeps it.
    """
    if _all_match() and type(screen._compositor) is _private("Compositor"):
        from gputop.tui.terminal.compositor import SparingCompositor

        screen._compositor = SparingCompositor()


def driver_of(app: App[Any]) -> Any:
    """Return the app's driver, which reads the terminal; None before there is one, or if this Textual gives it another name."""
    return getattr(app, "_driver", None)


def shown_cells() -> Any:
    """Return a memory of what the terminal shows; None unless this Textual passes all checks."""
    if not _all_match():
        return None
    from gputop.tui.terminal.partial_update import erases_in_color
    from gputop.tui.terminal.shown import ShownCells

    return ShownCells(erases_in_color(os.environ))


def crops_left(screen: Screen[Any]) -> bool:
    """Return True if updates of this screen start exactly where the change starts."""
    return getattr(getattr(screen, "_compositor", None), "crops_left", False)


def can_settle(screen: Screen[Any]) -> bool:
    """Return whether a screen can be laid out and painted at once."""
    return crops_left(screen)


def hold(screen: Screen[Any]) -> None:
    """Collect what needs painting, until ``release``."""
    _set_held(screen, True)


def release(screen: Screen[Any]) -> None:
    """Resume painting changes."""
    _set_held(screen, False)


def _set_held(screen: Screen[Any], held: bool) -> None:
    if can_settle(screen):
        screen._compositor.held = held  # type: ignore[attr-defined]


def lay_out(screen: Screen[Any], size: Size, *, always: bool = False) -> bool | None:
    """Lay out a screen now if a widget asks for it, or ``always``. Only if ``can_settle``.

    Returns:
        Whether that changed the size of a widget: one that gets a new size asks for another layout; None if none was needed.
    """
    widgets = screen.walk_children(Widget)
    asking = [widget for widget in widgets if widget._layout_required]
    if not asking and not always:
        return None
    before = {widget: widget.size for widget in widgets}
    # The requests that the widgets would send to the screen are handled here.
    with screen.prevent(messages.Layout, messages.Update):
        for widget in asking:
            widget._check_refresh()
    screen._refresh_layout(size)
    return any(widget.size != before[widget] for widget in before)


def paint_now(screen: Screen[Any]) -> None:
    """Paint all of a screen now, rather than with the next tick of its timer. Only if ``can_settle``."""
    screen.refresh()
    screen._layout_required = screen._repaint_required = False
    screen._compositor.update_widgets(set(screen._compositor.visible_widgets))
    screen._compositor_refresh()


def refresh_quietly(widget: Widget, regions: Sequence[Region]) -> None:
    """Note changed regions of a widget for ``paint_changed``; no message wakes the widget. Only if ``can_settle``."""
    with widget.prevent(messages.Prompt):
        widget.refresh(*regions)


def paint_changed(screen: Screen[Any]) -> None:
    """Paint the changes of a screen now, rather than after five messages and a timer. Only if ``can_settle``.

    A screen that is not on top, or that collects changes, paints as Textual does it.
    """
    changed = [widget for widget in screen.walk_children(Widget) if widget._repaint_required]
    if not changed:
        return
    if screen is not screen.app.screen or screen.app._batch_count:
        for widget in changed:
            widget.check_idle()
        return
    for widget in changed:
        widget._repaint_required = False
    screen._compositor.update_widgets(set(screen._compositor.visible_widgets))
    screen._compositor_refresh()


def can_restart(driver: Any) -> bool:
    """Return whether a driver marks a SIGTSTP as expected: a flag that its handler sets and that its start reads."""
    try:
        kind = type(driver)
        users = (kind._sigtstp_application, kind.start_application_mode)
        marks = type(getattr(driver, _RESUMED)) is bool and all(_RESUMED in method.__code__.co_names for method in users)
        return marks and callable(driver.suspend_application_mode) and callable(driver.resume_application_mode)
    except AttributeError:
        return False


def restart(driver: Any) -> None:
    """Start the screen again, after leaving it if SIGTSTP has not done so. Only if ``can_restart``."""
    if not driver._must_signal_resume:
        driver.suspend_application_mode()
        driver._must_signal_resume = True
    driver.resume_application_mode()


def parser_of_keys() -> Any:
    """Return a new parser of a terminal's input, with ``feed`` and ``tick``; None if this Textual has none as expected."""
    try:
        parser = import_module("textual._xterm_parser").XTermParser()
        events = [event.key for event in parser.feed("a")]
    except (ImportError, AttributeError, TypeError):
        return None
    return parser if events == ["a"] and not list(parser.tick()) else None


_OF_WIDGETS = (
    ("textual._styles_cache", "StylesCache.get_inner_outer"),
    *(("textual.geometry", f"Region.{name}") for name in ("intersection", "translate", "union", "grow", "shrink", "overlaps")),
    ("rich.cells", "cached_cell_len"),
)
"""Caches of up to 4,096 entries. The first keeps the lines that removed widgets have drawn, some 90 kB for each of its 1,024
entries; the others keep places of widgets, and each row of a chart."""


def forget_removed_widgets() -> None:
    """Free what Textual 8 and Rich keep of removed widgets."""
    for module, name in _OF_WIDGETS:
        try:
            attrgetter(f"{name}.cache_clear")(import_module(module))()
        except (ImportError, AttributeError):  # another version, which may not keep them
            continue


def drawn_text(app: App[Any], below: list[Screen[Any]]) -> str:
    """Return what is on the screen as lines of text; "" if Textual does not draw as expected.

    ``below``: the screens that the one on top does not cover.
    """
    console = Console(
        width=app.size.width, height=app.size.height, file=io.StringIO(), record=True, force_terminal=True, legacy_windows=False
    )
    try:
        console.print(app.screen._compositor.render_update(full=True, screen_stack=list(below), simplify=True))
    except (AttributeError, TypeError):
        return ""
    return "".join(f"{row.rstrip()}\n" for row in console.export_text().splitlines())
