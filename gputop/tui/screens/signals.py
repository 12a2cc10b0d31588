"""Asks which signal processes get. "Cancel" is preselected; the result for each process is shown afterwards."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from gputop.snapshot import Process
from gputop.tui.drawing.line import Line, Span, clean, clip
from gputop.tui.drawing.prose import BLANK, wrapped
from gputop.tui.screens.question import Question
from gputop.tui.screens.signalling import SIGNALS, Recipient, recipient, send
from gputop.tui.state.view import View
from gputop.tui.widgets.form import Field, Form

_CANCEL = Field("no", "Cancel", "button", detail=(Span("Esc or n", "dim"),), help="nothing is signaled")

_LINES_BESIDE = 13
"""Lines of the box besides the list: its frame, the title, the buttons, and what may follow the last process."""


class SignalScreen(Question):
    """Asks which signal these processes get; dismisses with True if one was sent."""

    ABOUT = "Signal?"

    def __init__(self, processes: Sequence[Process], view: View) -> None:
        super().__init__(view.settings.ascii)
        self.recipients = tuple(recipient(process, view) for process in processes)
        self.sent = False

    def ask(self) -> None:
        """Show who would be signaled, and the signals."""
        willing = sum(not one.refusal for one in self.recipients)
        if not willing:
            self._show_remarks("Nothing can be signaled.", "warn", [(one, one.refusal) for one in self.recipients])
            return
        first = next(one for one in self.recipients if not one.refusal)
        what = f"process {first.pid}" if willing == 1 else f"{willing} processes"
        buttons = [
            Field(number.name, number.name, "button", detail=(Span(effect, "dim"),), help=f"{effect}; goes to {what}")
            for number, effect in SIGNALS
        ]
        title = wrapped(f"Signal {what}?", self.columns(), "accent")
        self.put([*title, BLANK, *self._listed([(one, one.refusal) for one in self.recipients], "warn")], [_CANCEL, *buttons])

    def on_form_button_pressed(self, event: Form.ButtonPressed) -> None:
        """Send the signal of the button, or close."""
        event.stop()
        number = next((number for number, _ in SIGNALS if number.name == event.name), None)
        if number is None:
            self.action_no()
        else:
            self._send(number)

    def action_no(self) -> None:
        """Close."""
        self.dismiss(self.sent)

    def _send(self, number: signal.Signals) -> None:
        results = [(one, *send(one, number)) for one in self.recipients]
        reached = sum(done for _, done, _ in results)
        self.sent = reached > 0
        if len(results) == reached == 1:
            self.app.notify(f"{number.name} was sent to process {results[0][0].pid}.", timeout=5)
            self.dismiss(True)
            return
        title = f"{number.name} was sent to {reached} of {len(results)} processes."
        self._show_remarks(title, "ok" if reached == len(results) else "warn", [(one, remark) for one, _, remark in results])

    def _show_remarks(self, title: str, style: str, results: Sequence[tuple[Recipient, str]]) -> None:
        close = Field("no", "Close", "button", detail=(Span("Enter or Esc", "dim"),), help="back")
        self.put([*wrapped(title, self.columns(), style), BLANK, *self._listed(results, "text")], [close])

    def _listed(self, remarks: Sequence[tuple[Recipient, str]], style: str) -> list[Line]:
        """Return a line per process with its PID, user and command, and the remark about it below.

        If there are more than fit above the buttons, the last are only counted.
        """
        lines: list[Line] = []
        room = max(4, self.app.size.height - _LINES_BESIDE)
        users = max(len(clean(one.user)) for one, _ in remarks)
        for place, (one, words) in enumerate(remarks):
            if len(lines) >= room:
                lines.append((Span(f"… and {len(remarks) - place} more", "dim"),))
                break
            row = (Span(f"{one.pid:>7} ", "value"), Span(f"{clean(one.user):<{users}} ", "dim"), Span(clean(one.command)))
            lines.append(clip(row, self.columns()))
            if words:
                lines += wrapped(words, self.columns(), style, first=" " * 8, rest=" " * 8)
        return lines
