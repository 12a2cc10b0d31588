"""Shows the dashboard in this terminal, one view and then another: ``python -m tests.tui.terminal.changing_dashboard``."""

from __future__ import annotations

from gputop.tui.state.view import View
from tests import samples
from tests.tui.dashboards import POWER, DashboardApp, view_of

SECONDS = 10


def first() -> View:
    """A view of four GPUs at work."""
    return view_of([samples.snapshot(tick) for tick in range(SECONDS)])


def second() -> View:
    """The view of a second later, with a finding."""
    return view_of([samples.snapshot(tick) for tick in range(SECONDS + 1)], (POWER,))


class ChangingApp(DashboardApp):
    """Shows the first view, then the second as a change to it."""

    CSS_PATH = "../../../gputop/tui/gputop.tcss"

    def __init__(self) -> None:
        super().__init__(first())

    async def on_mount(self) -> None:
        await super().on_mount()
        self.set_timer(0.2, lambda: self.dashboard.show(second()))


if __name__ == "__main__":
    ChangingApp().run()
