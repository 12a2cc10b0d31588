"""Everything about one process, and the environment it was started with.

The snapshot holds most of it. The sampler reads the rest on the machine where the process runs: a screen posts
``Asked``, and the app hands it the answer in ``take_answer``.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.questions import Answer
from gputop.snapshot import Process, ProcessDetails
from gputop.tui.drawing.gpus.process_past import process_past_lines
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.processes.details import environment_lines, process_lines
from gputop.tui.drawing.prose import BLANK, wrapped
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.screens.stopping import IN_ANOTHER_CONTAINER, not_here
from gputop.tui.state import copying
from gputop.tui.state.copying import Copy
from gputop.tui.state.view import View
from gputop.tui.widgets.requests import Asked
from gputop.tui.widgets.ruled import RuledPane

ASK_EVERY_S = 2.0
"""Details change, and a question or its answer may get lost because the sampler answers only the newest question."""


class _AskingScreen(SubScreen):
    """A screen about one process that asks the sampler ``question`` while ``wants_answer`` is true."""

    question: ProcessQuestion

    def __init__(self, process: Process, view: View | None = None) -> None:
        super().__init__(view)
        self.process = process

    def chosen_process(self) -> Process:
        """Return the process shown."""
        return self.process

    def copyable(self) -> Copy | None:
        """Return the process's PID and command."""
        return copying.of_process(self.process)

    def on_mount(self) -> None:
        """Ask now and at intervals."""
        self.repeat(ASK_EVERY_S, self._ask)

    def _ask(self) -> None:
        if self.is_current and self.view is not None and self.wants_answer and not why_not_asked(self.process, self.view):
            self.post_message(Asked(self.question))

    def take_answer(self, answer: Answer) -> None:
        """Keep an answer to this screen's question, and draw it."""
        if not isinstance(answer, ProcessAnswer) or answer.question != self.question:
            return
        self.keep(answer)
        self.settle()

    @property
    def wants_answer(self) -> bool:
        """Whether to ask."""
        raise NotImplementedError

    def keep(self, answer: ProcessAnswer) -> None:
        """Keep what ``draw`` needs of the answer."""
        raise NotImplementedError


class ProcessScreen(_AskingScreen):
    """Shows everything known about one live process, and its last state once it ends."""

    NAME = "process"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "environment", "its environment", show=False),
        Binding("k,f9", "stop", "stop or signal it", show=False),
    ]
    HINTS = (
        KeyHint("Up/Down", "scroll"),
        KeyHint("e", "environment", "screen.environment"),
        KeyHint("k", "stop it", "screen.stop"),
    )

    def __init__(self, process: Process, view: View | None = None) -> None:
        super().__init__(process, view)
        self.question = ProcessQuestion(process.pid)
        self.gone = False
        self.details: ProcessDetails | None = None
        self.problem: str | None = None

    def compose_body(self) -> ComposeResult:
        """Yield the text."""
        yield RuledPane(id="process")

    @property
    def wants_answer(self) -> bool:
        """Whether the process is still there: its details change."""
        return not self.gone

    def keep(self, answer: ProcessAnswer) -> None:
        """Keep the details; the last ones remain after the process ends."""
        self.details = answer.details or self.details
        self.problem = answer.problem

    def draw(self, view: View) -> None:
        """Draw the current state of the process."""
        now = find_process(self.process, view)
        self.gone = now is None
        self.process = now or self.process
        pane = self.query_one("#process", RuledPane)
        columns = max(20, pane.inner_size.width)
        past = process_past_lines(view, self.process, columns)
        lines = [*past, *((BLANK,) if past else ()), *process_lines(self.process, view.snapshot, columns, self.details)]
        if self.problem:
            lines += wrapped(self.problem, columns, "warn")
        if self.gone:
            lines = [(Span("It has ended, or left the GPU. These are its last values.", "warn"),), BLANK, *lines]
        pane.set_content(lines, title=(Span(f"Process {self.process.pid}", "title"),))

    def action_environment(self) -> None:
        """Show its environment."""
        self.app.push_screen(EnvironmentScreen(self.process, self.view))

    def action_stop(self) -> None:
        """Ask whether to stop it."""
        from gputop.tui.screens.stop import stop_question

        if self.view is not None:
            self.app.push_screen(stop_question((self.process,), self.view))


class EnvironmentScreen(_AskingScreen):
    """Shows the environment that a process was started with. It never changes, so one answer is enough."""

    NAME = "environment"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("e", "back", "back", show=False)]
    HINTS = (KeyHint("Up/Down PgUp/PgDn", "scroll"),)

    def __init__(self, process: Process, view: View | None = None) -> None:
        super().__init__(process, view)
        self.question = ProcessQuestion(process.pid, environment=True)
        self.answer: ProcessAnswer | None = None

    def compose_body(self) -> ComposeResult:
        """Yield the text."""
        yield RuledPane(f"Environment of process {self.process.pid} at its start", id="environment")

    @property
    def wants_answer(self) -> bool:
        """Whether the environment has not arrived yet."""
        return self.answer is None

    def keep(self, answer: ProcessAnswer) -> None:
        """Keep the environment, or why it is missing."""
        self.answer = answer

    def draw(self, view: View) -> None:
        """Draw what is known."""
        pane = self.query_one("#environment", RuledPane)
        columns = max(20, pane.inner_size.width)
        pane.set_content(self._lines(view, columns))

    def _lines(self, view: View, columns: int) -> tuple[Line, ...]:
        command = clean(" ".join(self.process.command)) if self.process.command else self.process.name or ""
        above = (*wrapped(command, columns, "dim"), BLANK)
        if self.answer is None and (why := why_not_asked(self.process, view)):
            return (*above, *wrapped(f"Not available: {why}", columns, "warn"))
        if self.answer is None:
            return (*above, (Span("reading …", "dim"),))
        if self.answer.environment is not None:
            note = "As it was at the start: what Python changed later (os.environ) is not visible from outside."
            if self.answer.omitted:
                note = f"{self.answer.omitted} more variables are not shown: the environment is too long. {note}"
            return (*above, *environment_lines(self.answer.environment, columns), *wrapped(note, columns, "dim"))
        return (*above, *wrapped(self._why_none(self.answer, view), columns, "warn"))

    def _why_none(self, answer: ProcessAnswer, view: View) -> str:
        if answer.problem:
            return answer.problem
        if find_process(self.process, view) is None:
            return "The process has ended."
        who = self.process.user or "another user"
        return f"Hidden: the process belongs to {who}. The operating system shows an environment only to its owner and to root."


def why_not_asked(process: Process, view: View) -> str:
    """Return why the sampler cannot read this process; "" if it can."""
    if not process.in_namespace:
        return IN_ANOTHER_CONTAINER
    return "" if view.remote is not None else not_here(view, "look")  # the sampler there is asked about its own process


def find_process(process: Process, view: View) -> Process | None:
    """Return the process's record in the view, but not a different process that has since been given its PID."""
    for now in view.snapshot.processes:
        if now.pid == process.pid and (process.started_at is None or now.started_at in (None, process.started_at)):
            return now
    return None
