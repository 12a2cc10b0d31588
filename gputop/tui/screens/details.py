"""Everything about one process, and what it was started with."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from gputop.snapshot import Process, ProcessDetails
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.process_text import environment_lines, process_lines
from gputop.tui.drawing.prose import BLANK, wrapped
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.screens.stopping import not_here
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import Pane

DETAILS_EVERY_S = 2.0


class ProcessScreen(SubScreen):
    """Shows all that is known about one process while it lives; its last state after that."""

    NAME = "process"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "environment", show=False),
        Binding("k,f9", "stop", show=False),
    ]
    HINTS = (
        KeyHint("Up/Down", "scroll"),
        KeyHint("e", "environment", "screen.environment"),
        KeyHint("k", "stop it", "screen.stop"),
    )

    class Read(Message):
        """The operating system's details were read; None when the process is gone."""

        def __init__(self, details: ProcessDetails | None) -> None:
            super().__init__()
            self.details = details

    def __init__(self, process: Process, view: View | None = None) -> None:
        super().__init__(view)
        self.process = process
        self.gone = False
        self.details: ProcessDetails | None = None

    def compose_body(self) -> ComposeResult:
        """Yield the text."""
        yield Pane(id="process")

    def chosen_process(self) -> Process:
        """Return the process that is shown."""
        return self.process

    def on_mount(self) -> None:
        """Read what is read on demand, now and then again."""
        self.read_details()
        self.set_interval(DETAILS_EVERY_S, self.read_details)

    @work(thread=True, exclusive=True)
    def read_details(self) -> None:
        """Read in a thread: /proc can wait for a process that hangs in the kernel."""
        from gputop.sources.host.reader import details_of

        if self.view is not None and not not_here(self.view) and self.process.in_namespace:
            self.post_message(self.Read(details_of(self.process.pid)))

    def on_process_screen_read(self, event: Read) -> None:
        """Show what was read; the last values stay when the process ends."""
        self.details = event.details or self.details
        if self.view is not None:
            self.draw(self.view)

    def draw(self, view: View) -> None:
        """Draw the process as it is now."""
        now = find_process(self.process, view)
        self.gone = now is None
        self.process = now or self.process
        pane = self.query_one("#process", Pane)
        lines = list(process_lines(self.process, view.snapshot, max(20, pane.inner_size.width), self.details))
        if self.gone:
            lines = [(Span("It has ended, or left the GPU. These are its last values.", "warn"),), BLANK, *lines]
        pane.set_content(lines, title=(Span(f"Process {self.process.pid}", "title"),))

    def action_environment(self) -> None:
        """Show its environment."""
        self.app.push_screen(EnvironmentScreen(self.process, self.view))

    def action_stop(self) -> None:
        """Ask whether to stop it."""
        from gputop.tui.screens.stop import open_stop, target_of_process

        if self.view is not None:
            open_stop(self.app, target_of_process(self.process, self.view), self.view)


class EnvironmentScreen(SubScreen):
    """Shows the environment that a process was started with, read once, off the screen's thread."""

    NAME = "environment"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("e", "back", show=False)]
    HINTS = (KeyHint("Up/Down PgUp/PgDn", "scroll"),)

    class Read(Message):
        """The environment was read; None when the operating system hides it."""

        def __init__(self, environment: dict[str, str] | None) -> None:
            super().__init__()
            self.environment = environment

    def __init__(self, process: Process, view: View | None = None) -> None:
        super().__init__(view)
        self.process = process
        self.environment: dict[str, str] | None = None
        self.is_read = False

    def compose_body(self) -> ComposeResult:
        """Yield the text."""
        yield Pane(f"Environment of process {self.process.pid} at its start", id="environment")

    def chosen_process(self) -> Process:
        """Return the process that is shown."""
        return self.process

    def on_mount(self) -> None:
        """Begin to read."""
        self.read_environment()

    @work(thread=True, exclusive=True)
    def read_environment(self) -> None:
        """Read /proc in a thread: it can wait for a process that hangs in the kernel."""
        from gputop.sources.host.reader import environment_of

        refused = self.view is not None and not_here(self.view)
        found = None if refused else environment_of(self.process.pid)
        self.post_message(self.Read(None if found is None else dict(found)))

    def on_environment_screen_read(self, event: Read) -> None:
        """Show what was read."""
        self.environment, self.is_read = event.environment, True
        if self.view is not None:
            self.draw(self.view)

    def draw(self, view: View) -> None:
        """Draw what is known."""
        pane = self.query_one("#environment", Pane)
        columns = max(20, pane.inner_size.width)
        pane.set_content(self._lines(view, columns))

    def _lines(self, view: View, columns: int) -> tuple[Line, ...]:
        command = clean(" ".join(self.process.command)) if self.process.command else self.process.name or ""
        above = (*wrapped(command, columns, "dim"), BLANK)
        if not self.is_read:
            return (*above, (Span("reading …", "dim"),))
        if self.environment is not None:
            note = "As it was at the start: what Python changed later (os.environ) is not visible from outside."
            return (*above, *environment_lines(self.environment, columns), *wrapped(note, columns, "dim"))
        if not_here(view):
            return (*above, *wrapped(f"Not to be had: {not_here(view)}", columns, "warn"))
        if find_process(self.process, view) is None:
            return (*above, *wrapped("The process has ended.", columns, "warn"))
        who = self.process.user or "another user"
        why = f"Hidden: the process belongs to {who}. The operating system shows an environment to its owner and to root alone."
        return (*above, *wrapped(why, columns, "warn"))


def find_process(process: Process, view: View) -> Process | None:
    """Return the process as it is in the view; not another one that got its PID since."""
    for now in view.snapshot.processes:
        if now.pid == process.pid and (process.started_at is None or now.started_at in (None, process.started_at)):
            return now
    return None
