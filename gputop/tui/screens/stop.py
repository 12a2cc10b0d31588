"""The confirmation before anything is stopped. "No" is preselected; nothing is signaled without a "Yes"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from gputop.errors import GputopError
from gputop.snapshot import Process, ProcessRun, Run
from gputop.tui.drawing.line import Span
from gputop.tui.drawing.prose import BLANK, wrapped
from gputop.tui.screens.question import Question
from gputop.tui.screens.signals import SignalScreen
from gputop.tui.screens.stopping import (
    StopTarget,
    job_of,
    ranks_of,
    stop,
    target_of_job,
    target_of_process,
    target_of_process_run,
    target_of_run,
)
from gputop.tui.state.under_way import UNDER_WAY
from gputop.tui.state.untracked import processes_of
from gputop.tui.state.view import View
from gputop.tui.widgets.form import Field, Form

__all__ = ["StopScreen", "stop_question", "stop_run", "target_of_job", "target_of_process", "target_of_run"]


class StopScreen(Question):
    """Asks whether to stop ``target``; dismisses with True if the user confirmed and the stop was requested."""

    class Answered(Message):
        """A slow request was accepted, or ``error`` says why not."""

        def __init__(self, error: GputopError | None = None) -> None:
            super().__init__()
            self.error = error

    ABOUT = "Stop?"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "yes", "yes, stop it", show=False)]

    def __init__(self, target: StopTarget, ascii_only: bool = False) -> None:
        super().__init__(ascii_only)
        self.target = target
        self.failed = False
        self._asking = False

    def ask(self) -> None:
        """Ask, or explain why the target cannot be stopped."""
        if self.target.refusal:
            self._explain(f"Cannot stop {self.target.title}.", self.target.refusal)
            return
        question = wrapped(f"Stop {self.target.title}?", self.columns(), "accent")
        self.put(
            [*question, BLANK, *wrapped(self.target.what_happens, self.columns())],
            [
                Field("no", "No, let it run", "button", detail=(Span("Esc or n", "dim"),), help="nothing is signaled"),
                Field("yes", "Yes, stop it", "button", detail=(Span("y", "dim"),), help="asks it to end"),
            ],
        )

    def _explain(self, message: str, hint: str) -> None:
        self.failed = True
        lines = [*wrapped(message, self.columns(), "bad"), *wrapped(hint, self.columns())]
        self.put(lines, [Field("no", "Close", "button", detail=(Span("Enter or Esc", "dim"),), help="back")])

    def on_form_button_pressed(self, event: Form.ButtonPressed) -> None:
        """Act on the pressed button."""
        event.stop()
        if event.name == "yes":
            self.action_yes()
        else:
            self.action_no()

    def action_yes(self) -> None:
        """Stop it and report success; on failure, show the reason and stay open."""
        if self.failed or self._asking:
            return
        if self.target.slow:
            self._asking = True
            closing = Field(
                "no", "Close", "button", detail=(Span("Esc", "dim"),), help="it stops all the same; the result is shown"
            )
            self.put(wrapped("Asking it to stop ...", self.columns()), [closing])
            left = f"{self.target.title} was being stopped; gputop jobs lists it."
            UNDER_WAY.start(self._stop_slowly, lambda: left, self._refused)
            return
        try:
            done = stop(self.target)
        except GputopError as error:
            self._explain(error.message, error.hint)
            return
        self.app.notify(done, timeout=5)
        self.dismiss(True)

    def _stop_slowly(self) -> None:
        self.app.notify(stop(self.target), timeout=5)
        self.post_message(self.Answered())

    def _refused(self, error: GputopError) -> None:
        if not self.post_message(self.Answered(error)):
            self.app.notify(str(error), severity="warning", timeout=10)

    def on_stop_screen_answered(self, event: Answered) -> None:
        """Close, or show what was refused."""
        if event.error is None:
            self.dismiss(True)
        else:
            self._explain(event.error.message, event.error.hint)


def stop_question(processes: Sequence[Process], view: View) -> Question:
    """Return the question for these processes, at least one: which signal they get, or whether their job or run is stopped.

    A job is stopped as a whole, through its record, and so is one process of a launched run, through its launcher.
    """
    first = processes[0]
    jobs = {job_of(process, view) for process in processes}
    whole = len(processes) == 1 and first.launcher is not None
    if whole or (len(jobs) == 1 and None not in jobs):
        return StopScreen(target_of_process(first, view), view.settings.ascii)
    return SignalScreen(processes, view)


def stop_run(run: Run | ProcessRun, view: View) -> Question:
    """Return the question for a run: whether it is stopped, or which signal untracked ranks without a launcher get."""
    whole = run if isinstance(run, ProcessRun) else processes_of(run.run_id, view.snapshot)
    if whole is None:
        assert isinstance(run, Run)
        return StopScreen(target_of_run(run, view), view.settings.ascii)
    processes = ranks_of(whole, view)
    if processes and processes[0].launcher is None and job_of(processes[0], view) is None:
        return SignalScreen(processes, view)
    return StopScreen(target_of_process_run(whole, view), view.settings.ascii)
