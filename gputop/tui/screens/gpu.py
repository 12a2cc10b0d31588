"""Everything about one GPU: its readings over time, memory, links, health, processes, and findings."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputop.questions import Answer
from gputop.run_questions import GpusAnswer
from gputop.snapshot import Device
from gputop.tui.drawing.gpus.detail import gpu_head, gpu_lines, gpu_name
from gputop.tui.drawing.gpus.over_time import SPANS
from gputop.tui.drawing.gpus.pane import ordered
from gputop.tui.drawing.line import Line, Span
from gputop.tui.screens.base import KeyBar, KeyHint, SubScreen
from gputop.tui.screens.stored import ASK_EVERY_S, StoredRuns
from gputop.tui.state import copying
from gputop.tui.state.copying import Copy
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.requests import Asked, PcieWanted

SPAN_FIRST = 1
"""The period shown at first, an index into ``over_time.SPANS``."""


class GpuScreen(SubScreen):
    """Shows one GPU; once it is gone, its last readings."""

    NAME = "GPU"
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,left_square_bracket", "other(-1)", "previous GPU", show=False),
        Binding("down,right_square_bracket", "other(1)", "next GPU", show=False),
        Binding("left", "span(-1)", "shorter range", show=False),
        Binding("right", "span(1)", "longer range", show=False),
        Binding("pageup", "scroll(-1)", "scroll up by a page", show=False),
        Binding("pagedown", "scroll(1)", "scroll down by a page", show=False),
    ]

    def __init__(self, device: Device, view: View | None = None) -> None:
        super().__init__(view)
        self.device = device
        self.gone = False
        self.span = SPAN_FIRST
        self.stored = StoredRuns()

    def compose_body(self) -> ComposeResult:
        """Yield the lines."""
        yield LinesWidget(id="gpu")

    def on_mount(self) -> None:
        """Have PCIe throughput measured while this screen is open: on some GPUs that costs a blocking call."""
        self.app.post_message(PcieWanted(True))
        self.repeat(ASK_EVERY_S, self._ask)

    def _ask(self) -> None:
        """Ask for what was recorded of the chosen run's GPUs, until there is an answer."""
        question = self.stored.gpus_question(self.view.run_id or "", self.view) if self.view is not None else None
        if question is not None and self.is_current:
            self.post_message(Asked(question))

    def take_answer(self, answer: Answer) -> None:
        """Keep what was recorded."""
        if isinstance(answer, GpusAnswer) and self.view is not None:
            self.stored.take_gpus(answer, self.view.history)
            self.settle()

    def on_unmount(self) -> None:
        """Stop measuring PCIe throughput."""
        self.app.post_message(PcieWanted(False))

    @property
    def body(self) -> LinesWidget:
        """The widget with the lines."""
        return self.query_one("#gpu", LinesWidget)

    def copyable(self) -> Copy | None:
        """Return the GPU's UUID."""
        return copying.of_device(self.device)

    def draw_head(self, view: View) -> None:
        """Draw the header of the GPU as it is now."""
        now = next((device for device in view.snapshot.devices if device.uuid == self.device.uuid), None)
        self.gone = now is None
        self.device = now or self.device
        self.NAME = gpu_name(self.device)
        super().draw_head(view)

    def head_text(self, view: View) -> Line:
        """Return the model, its state, and who works on it."""
        return gpu_head(view, self.device, self.gone)

    def draw(self, view: View) -> None:
        """Draw the GPU."""
        columns, rows = self.body.size
        if columns < 1 or rows < 1:
            return
        lines = gpu_lines(view, self.device, self.span, max(1, columns - 2), rows, self.gone)
        self.body.set_lines([(Span(" "), *line) for line in lines])
        self.query_one(KeyBar).set_hints(self._hints(len(lines) > rows))

    def _hints(self, more: bool) -> tuple[KeyHint, ...]:
        span = SPANS[self.span][0]
        return self.named(
            (
                KeyHint("Up/Down", "GPU" if more else "other GPU", "screen.other(1)", 2),
                KeyHint("Left/Right", span.removesuffix(" run") if more else f"range: {span}", "screen.span(1)", 2),
                *([KeyHint("PgUp/PgDn", "scroll", "screen.scroll(1)", 1)] if more else []),
                KeyHint("d", "doctor", "app.doctor"),
            )
        )

    def action_other(self, by: int) -> None:
        """Show the next or previous GPU."""
        devices = ordered(self.view.snapshot.devices) if self.view is not None else ()
        if not devices or self.view is None:
            return
        place = next((place for place, device in enumerate(devices) if device.uuid == self.device.uuid), None)
        if place is None:  # it is gone: its neighbor is the next one by its old index
            place = sum(device.index < self.device.index for device in devices) - (by > 0)
        self.device = devices[(place + by) % len(devices)]
        self.body.first = 0
        self.settle()

    def action_span(self, by: int) -> None:
        """Show a longer or shorter period."""
        self.span = min(len(SPANS) - 1, max(0, self.span + by))
        self.settle()

    def action_scroll(self, by: int) -> None:
        """Scroll by a page."""
        self.body.action_page(by)
