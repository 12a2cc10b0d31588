"""The launch screen: recipes, the form of the chosen one, the jobs with their logs.

``following`` follows jobs; ``starting`` starts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from gputop.errors import GputopError
from gputop.jobs.store import Job
from gputop.over_hosts.watched import HostJobs
from gputop.recipes import own_commands
from gputop.tui.drawing.line import Line, Span, width
from gputop.tui.drawing.prose import wrapped
from gputop.tui.screens.base import BACK, KeyBar
from gputop.tui.screens.launch import entries, hints, hosts_form
from gputop.tui.screens.launch import form as launch_form
from gputop.tui.screens.launch.hosts_log import HostsJobLog
from gputop.tui.screens.launch.listing import list_items
from gputop.tui.screens.launch.log import JobLog
from gputop.tui.screens.launch.recipe_list import RecipeList
from gputop.tui.screens.launch.starting import StartingScreen
from gputop.tui.state.view import View
from gputop.tui.widgets.choice_list import ChoiceList, Item
from gputop.tui.widgets.form import Field, Form
from gputop.tui.widgets.requests import LayoutChanged

POLL_S = 0.5
OWN_PROBLEM_S = 15.0
"""For how long a problem with the file of the user's own commands is shown."""
"""How often to poll the jobs and the log while the screen is open."""
_FIRST = "ddp"
"""The recipe chosen initially: gputop is about training on several GPUs."""


class LaunchScreen(StartingScreen):
    """Starts recipes, shows their jobs, stops them."""

    NAME = "launch"
    DEFAULT_CSS = """
    LaunchScreen #above { layout: horizontal; height: 23; }
    LaunchScreen #recipes { width: 58; }
    LaunchScreen #log { height: 1fr; }
    LaunchScreen.low #above { height: 13; }
    LaunchScreen.low #recipes { width: 34; }
    LaunchScreen.small #above { height: 11; }
    LaunchScreen.small #recipes { width: 28; }
    LaunchScreen.idle #above { height: 1fr; }
    LaunchScreen.idle #log { height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5,ctrl+s", "start", "start the chosen recipe", show=False),
        Binding("f6", "start_series", "start it at 1, 2, 4 GPUs, one after another", show=False),
        Binding("c", "compare", "compare the jobs", show=False),
        Binding("ctrl+d", "forget", "forget the chosen command of your own", show=False),
        Binding("x,k,f9", "stop", "stop the chosen job", show=False),
        Binding("l", "recipes", "recipes", show=False),
        Binding("1", "pane('recipes')", "go to the recipes", show=False),
        Binding("2", "pane('form')", "go to the form", show=False),
        Binding("3", "pane('jobs')", "go to the jobs", show=False),
        Binding("4", "pane('log')", "go to the log", show=False),
    ]
    HINTS = hints.RECIPES

    def __init__(self, view: View | None = None, recipe: str | None = None, over: HostJobs | None = None) -> None:
        super().__init__(view, over)
        self._first = recipe
        """Key of the recipe to begin with, if it is still there."""
        self._values: dict[str, dict[str, str]] = {}
        self._picked: dict[str, tuple[str, ...]] = {}
        self._filled = False
        self._form_columns = 0

    def compose_body(self) -> ComposeResult:
        """Yield the four panes."""
        with Container(id="above"):
            yield RecipeList("Recipes", "1", id="recipes")
            yield Form("", "2", id="form")
        yield ChoiceList("Jobs", "3", id="jobs")
        yield (JobLog if self.over is None else HostsJobLog)("Log", "4", id="log")

    def on_mount(self) -> None:
        """Start polling the jobs."""
        self.focus_now(self.query_one("#recipes"))
        self.set_interval(POLL_S, self.poll)
        self.poll()
        problem = own_commands.problem()
        if problem is not None:
            self.notify(problem, severity="warning", timeout=OWN_PROBLEM_S)

    # Drawing

    def fill(self) -> None:
        """Draw all; the recipes need no view."""
        super().fill()
        if self.view is None:
            self._fill_recipes()

    def draw(self, view: View) -> None:
        """Draw what changes over time: free memory, durations, losses."""
        self._fill_recipes()
        form = self.query_one("#form", Form)
        if not self._filled or self._devices_changed(form) or self._form_columns != form.inner_size.width:
            if self._filled:
                self._remember()
            self._fill_form()
        else:
            self._update(form.fields, view)
            form.redraw()
        self._draw_jobs(view)

    def _update(self, fields: Sequence[Field], view: View) -> None:
        """Update the details next to the fields."""
        if self.over is None:
            self.entry.update(fields, view)
        else:
            hosts_form.update_start(fields)

    def _fill_recipes(self) -> None:
        pane = self.query_one("#recipes", RecipeList)
        columns = max(16, pane.inner_size.width)
        listed = pane.found(self.entries)
        keys = [entry.key for entry in listed]
        if pane.chosen not in keys:
            pane.chosen = next((key for key in (self._first, _FIRST, *keys[:1]) if key in keys), None)
        items = list_items(listed, columns, short=self.has_class("low") or self.has_class("small"))
        nothing = [Item((Span("no recipe contains these letters", "dim"),))]
        pane.set_items(items or nothing, subtitle=pane.search_line())
        if pane.chosen is not None and pane.chosen != self.entry.key:
            self.entry = entries.entry(pane.chosen)
            self._filled = False

    def _fill_form(self) -> None:
        if self.view is None:
            return
        form = self.query_one("#form", Form)
        picked = self._picked.get(self.entry.key)
        if picked is None:
            picked = self.entry.default_devices(self.view.snapshot)
        fields = self.entry.fields(self.view, self._values.get(self.entry.key, {}), picked)
        if self.over is not None:
            wanted = self._values.get(self.entry.key, {}).get(hosts_form.HOSTS) or ",".join(self.over.hosts)
            fields = hosts_form.fields_for_hosts(fields, wanted)
        self._update(fields, self.view)
        form.title = self._title(form)
        form.set_fields([*self._about(form), *fields], cursor=form.chosen if self._filled else fields[0].name)
        self._form_columns = form.inner_size.width
        self._filled = True

    def _title(self, form: Form) -> Line:
        """Return the entry's title, in the longest form that fits into the frame."""
        return self.entry.title if width(self.entry.title) <= form.title_cells else self.entry.short_title

    def _about(self, form: Form) -> list[Field]:
        """Return the description as lines above the fields."""
        columns = max(20, form.inner_size.width)
        return [
            Field(f"about {number}", "", "note", detail=line)
            for number, line in enumerate(wrapped(self.entry.description, columns, "dim"))
        ]

    def _devices_changed(self, form: Form) -> bool:
        assert self.view is not None
        if self.over is not None:
            return False
        shown = [field.name.removeprefix(launch_form.GPU_PREFIX) for field in form.fields if field.kind == "check"]
        return shown != [device.uuid for device in launch_form.usable(self.view.snapshot)]

    # Keys and messages

    def on_descendant_focus(self) -> None:
        """Name the keys of the pane that has the focus now; in the form, only keys that type nothing.

        Of a pane that had the focus only for a moment, the event may come last.
        """
        name = (self.focused.id if self.focused is not None else None) or ""
        shown = hints.HINTS.get(name, hints.RECIPES)
        self.query_one(KeyBar).set_hints((BACK, *shown) if name == "form" else self.named(shown))

    def on_recipe_list_sought(self) -> None:
        """List what is searched for, with the form of its first entry."""
        before = self.entry.key
        self._remember()
        self._fill_recipes()
        if self.entry.key != before:
            self._fill_form()

    def on_choice_list_chosen(self, event: ChoiceList.Chosen) -> None:
        """Show the chosen recipe's form, or the chosen job's log."""
        if event.widget.id == "recipes":
            self._remember()
            self.entry = entries.entry(event.key)
            self._filled = False  # the cursor begins at the first field of this form
            self._fill_form()
        elif event.widget.id == "jobs":
            self._follow_chosen()

    def on_choice_list_pressed(self, event: ChoiceList.Pressed) -> None:
        """Focus a recipe's form, or a job's log."""
        if event.widget.id == "recipes":
            self.action_pane("form")
        elif event.widget.id == "jobs":
            self.action_pane("log")

    def on_form_changed(self, event: Form.Changed) -> None:
        """Update what depends on the changed field."""
        if self.view is not None:
            self._update(event.form.fields, self.view)
            event.form.redraw()

    def on_form_button_pressed(self, event: Form.ButtonPressed) -> None:
        """Start the recipe, or start it on several GPU counts."""
        event.stop()
        if event.name == launch_form.COMPARE:
            self.action_start_series()
        else:
            self.action_start()

    def action_pane(self, name: str) -> None:
        """Focus a pane."""
        self.query_one(f"#{name}").focus()

    def action_recipes(self) -> None:
        """Focus the recipe list."""
        self.action_pane("recipes")

    def _remember(self) -> None:
        """Keep the form's values for when this recipe is chosen again."""
        form = self.query_one("#form", Form)
        self._values[self.entry.key] = {
            field.name: str(field.value) for field in form.fields if field.kind in ("int", "float", "text", "choice")
        }
        self._picked[self.entry.key] = launch_form.chosen_uuids(form.fields)

    def _started(self, started: Sequence[Job], message: str, hint: str, *, warn: bool = False) -> None:
        self._remember()
        self.post_message(LayoutChanged(recipe=self.entry.key))
        self.entries = entries.entries()
        self._fill_recipes()
        self._show_message(self.query_one("#form", Form), "warn" if warn else "ok", message, hint)
        self.starts += len(started)
        new = {job.id for job in started}
        self.jobs = [*reversed(started), *(other for other in self.jobs if other.id not in new)]
        if self.view is not None:
            self._draw_jobs(self.view)
        self.make_room()
        self.query_one("#jobs", ChoiceList).choose(started[0].id)
        self._follow_chosen()
        self.action_pane("jobs")

    def action_forget(self) -> None:
        """Remove the user's chosen command from the list."""
        try:
            if entries.forget(self.entry.key):
                self.entries = entries.entries()
                self._fill_recipes()
                self._fill_form()
                self.app.notify("The command is forgotten; its jobs stay.", timeout=4)
        except GputopError as error:
            self.notify(str(error), severity="warning", timeout=6)
