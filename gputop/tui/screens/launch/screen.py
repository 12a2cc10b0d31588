"""The launch screen: recipes, the form of the chosen one, the jobs with their logs, and the way to their comparison."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from gputop.errors import GputopError
from gputop.hosts.names import parse_hosts
from gputop.jobs import series, slurm, slurm_submit_apart, store
from gputop.jobs.output import logs
from gputop.jobs.store import Job
from gputop.over_hosts.launch import CallOff, launch_over
from gputop.over_hosts.watched import HostJobs, HostsLog
from gputop.recipes.nodes import NodeOrder
from gputop.snapshot import Device
from gputop.tui.drawing import jobs as drawn_jobs
from gputop.tui.drawing.line import Span, clean
from gputop.tui.drawing.prose import wrapped
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.screens.launch import entries, hosts_form
from gputop.tui.screens.launch import form as launch_form
from gputop.tui.screens.launch import log as job_log
from gputop.tui.screens.launch.entries import Launchable
from gputop.tui.screens.launch.hosts_log import HostsJobLog
from gputop.tui.screens.launch.listing import list_items
from gputop.tui.screens.launch.log import JobLog, JobsPolled
from gputop.tui.screens.launch.recipe_list import RecipeList
from gputop.tui.screens.launch.submitting import SlurmSaid, Submitted, left_over_hosts, left_to_slurm
from gputop.tui.state.under_way import UNDER_WAY
from gputop.tui.state.view import View
from gputop.tui.widgets.choice_list import ChoiceList, Item
from gputop.tui.widgets.form import Field, Form
from gputop.tui.widgets.requests import LayoutChanged

POLL_S = 0.5
"""How often the jobs and the log are polled while the screen is open."""
SLURM_POLL_S = 10.0
"""How often Slurm is asked: it serves a whole cluster."""
SOON_S = 1.5
"""How long after its submission Slurm is asked about a job: where there is room, it starts within a second."""
_FIRST = "ddp"
"""The recipe chosen initially: gputop is about training on several GPUs."""


_Form = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]
"""What a job is started from: the entry's key, the UUIDs of the GPUs, the values."""


class LaunchScreen(SubScreen):
    """Starts recipes, shows their jobs, stops them."""

    NAME = "launch"
    DEFAULT_CSS = """
    LaunchScreen #above { layout: horizontal; height: 23; }
    LaunchScreen #recipes { width: 60; }
    LaunchScreen #jobs { height: 10; }
    LaunchScreen #log { height: 1fr; }
    LaunchScreen.low #above { height: 13; }
    LaunchScreen.low #recipes { width: 34; }
    LaunchScreen.low #jobs { height: 6; }
    LaunchScreen.small #above { height: 11; }
    LaunchScreen.small #recipes { width: 28; }
    LaunchScreen.small #jobs { height: 5; }
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
    HINTS = (
        KeyHint("Up/Down", "recipe", "", 3),
        KeyHint("/", "search", "screen.pane('recipes')", 1),
        KeyHint("Enter", "its form", "screen.pane('form')", 2),
        KeyHint("F5", "start", "screen.start", 1),
        KeyHint("F6", "at 1, 2, 4 GPUs", "screen.start_series", 6),
        KeyHint("c", "compare", "screen.compare", 4),
        KeyHint("x", "stop the job", "screen.stop", 2),
        KeyHint("Tab 1-4", "panes", "app.focus_next"),
        KeyHint("?", "help", "app.help", 0),
    )

    def __init__(self, view: View | None = None, recipe: str | None = None, over: HostJobs | None = None) -> None:
        super().__init__(view)
        self.over = over
        """The hosts that it starts jobs on and lists the jobs of; None: this machine."""
        self._first = recipe
        """Key of the recipe to begin with, if it is still there."""
        self.jobs: list[Job] = []
        self.problems: tuple[GputopError, ...] = ()
        self.entries: list[Launchable] = entries.entries()
        self.entry: Launchable = self.entries[0]
        self._values: dict[str, dict[str, str]] = {}
        self._picked: dict[str, tuple[str, ...]] = {}
        self._followed: str | None = None
        self._follower: job_log.Follower | None = None
        self._filled = False
        self._form_columns = 0
        self._polling = False
        self._asking_slurm = False
        self._slurm_due = 0.0
        """When Slurm is asked again, monotonic seconds."""
        self._slurm_problem: str | None = None
        """What kept Slurm from answering last: it is said once."""
        self._begun: dict[str, _Form] = {}
        """How the form was filled in when each job was started here."""
        self._asked: _Form | None = None
        """The form for which the user was asked whether to start a second job like it."""
        self._submitting: _Form | None = None
        """The form that hosts or Slurm are asked to start, until they have answered."""

    def compose_body(self) -> ComposeResult:
        """Yield the four panes."""
        with Container(id="above"):
            yield RecipeList("Recipes", "1", id="recipes")
            yield Form("", "2", id="form")
        yield ChoiceList("Jobs", "3", id="jobs")
        yield (JobLog if self.over is None else HostsJobLog)("Log", "4", id="log")

    def on_mount(self) -> None:
        """Fill the recipe list, and start polling the jobs."""
        self._fill_recipes()
        self.query_one("#recipes").focus()
        self.set_interval(POLL_S, self.poll)
        self.poll()

    # Drawing

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
        nothing = [Item((Span("nothing holds these letters", "dim"),))]
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
        form.title = self.entry.title
        form.set_fields([*self._about(form), *fields], cursor=form.chosen if self._filled else fields[0].name)
        self._form_columns = form.inner_size.width
        self._filled = True

    def _about(self, form: Form) -> list[Field]:
        """Return the description as lines above the fields, if there is space for them."""
        columns = max(20, form.inner_size.width)
        if self.has_class("low") or self.has_class("small"):
            form.idle_footer = (Span(self.entry.description, "dim"),)
            return []
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

    def _draw_jobs(self, view: View) -> None:
        pane = self.query_one("#jobs", ChoiceList)
        columns = max(20, pane.inner_size.width)
        unreadable = [Item((Span(clean(problem.message), "warn"),)) for problem in self.problems]
        if not self.jobs and unreadable:
            pane.set_items(unreadable)
            return
        if not self.jobs:
            pane.set_items([Item((Span("No job yet. F5 starts the chosen recipe; its log comes below.", "dim"),))])
            return
        compared = drawn_jobs.compare(self.jobs, view.snapshot, view.history)
        items = [Item(drawn_jobs.heading(columns, view.settings.ascii))]
        items += [
            Item(drawn_jobs.row(job, compared[job.id], view.snapshot, columns, view.settings.ascii), job.id)
            for job in self.jobs
        ]
        items += unreadable
        pane.header_lines = 1
        active = sum(job.active for job in self.jobs)
        waiting = sum(job.state == "waiting" for job in self.jobs)
        text = f"{active - waiting} running" + (f", {waiting} waiting" if waiting else "")
        pane.set_items(items, subtitle=(Span(text, "ok" if active else "dim"),))

    # Jobs and their logs

    def chosen_job(self) -> Job | None:
        """Return the job under the table's cursor."""
        chosen = self.query_one("#jobs", ChoiceList).chosen
        return next((job for job in self.jobs if job.id == chosen), None)

    def poll(self) -> None:
        """Poll the jobs and the log, unless the previous poll still waits for the file system."""
        if not self._polling:
            self._polling = True
            self._poll(self._follower)
        # Not by a timer: one that is stopped keeps its closed screen in memory until it would have rung.
        if time.monotonic() >= self._slurm_due:
            self.ask_slurm()

    def on_unmount(self) -> None:
        """End the connections that a log is read over."""
        self._close_follower()

    def _close_follower(self) -> None:
        if isinstance(self._follower, HostsLog):
            self._follower.close()
        self._follower = None

    def ask_slurm(self) -> None:
        """Ask Slurm about its jobs, unless it has not answered yet; hosts ask for themselves."""
        self._slurm_due = time.monotonic() + SLURM_POLL_S
        if not self._asking_slurm and self.over is None:
            self._asking_slurm = True
            UNDER_WAY.start(self._ask_slurm, str)

    def _ask_slurm(self) -> None:
        self.post_message(SlurmSaid([str(problem) for problem in slurm.refresh(store.list_jobs())]))

    def on_slurm_said(self, event: SlurmSaid) -> None:
        """Say once what keeps Slurm from answering."""
        self._asking_slurm = False
        for problem in event.problems:
            if problem != self._slurm_problem:
                self.notify(problem, severity="warning", timeout=6)
        self._slurm_problem = event.problems[-1] if event.problems else None

    @work(thread=True)
    def _poll(self, follower: job_log.Follower | None) -> None:
        self.post_message(job_log.poll(follower, self.over))

    def on_jobs_polled(self, event: JobsPolled) -> None:
        """Show the result of a poll."""
        self._polling = False
        if event.found is not None:
            self.jobs, self.problems = list(event.found.jobs), event.found.problems
        if self.view is not None and self.size:
            self._draw_jobs(self.view)
        log = self.query_one("#log", JobLog)
        if event.follower is not None and event.follower is self._follower:
            log.explain(job_log.explanation_lines(event.failure, max(20, log.inner_size.width)))
            log.add(event.texts, event.pending)
        self._follow_chosen()

    def _follow_chosen(self) -> None:
        job = self.chosen_job()
        log = self.query_one("#log", JobLog)
        if job is None:
            return
        log.title = (Span("Log of ", "title"), Span(job.name, "accent"), Span(f"  {job.id}", "dim"))
        log.subtitle = drawn_jobs.log_subtitle(job)
        if job.id == self._followed:
            log.repaint()
            return
        self._followed = job.id
        log.follow_job(job.id)
        self._follow_rank()

    def _follow_rank(self) -> None:
        """Follow the chosen job's output, limited to the rank that the log shows."""
        log = self.query_one("#log", JobLog)
        self._close_follower()
        job = self.chosen_job()
        if self.over is not None:
            self._follower = self.over.follow(job) if job is not None else None
            self.poll()
            return
        try:
            self._follower = logs.LogFollower(self._followed or "", log.follower_rank)
        except GputopError as error:
            self._follower = None
            log.add([str(error)])
            return
        self.poll()

    def on_job_log_rank_chosen(self) -> None:
        """Follow another rank."""
        self._follow_rank()

    # Keys and messages

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

    def _chosen(self) -> tuple[list[Device], dict[str, str]] | None:
        """Return the chosen GPUs and values; if something is wrong, show it in the form and return None."""
        form = self.query_one("#form", Form)
        if self.view is None or self.query_one("#recipes", RecipeList).chosen is None:
            return None
        reason = launch_form.why_not(self.view, over_hosts=self.over is not None)
        if reason:
            self._show_message(form, "bad", *reason)
            return None
        values = form.values()
        if values is None:
            form.focus()  # the invalid field has the cursor and shows the reason
            return None
        picked = set(launch_form.chosen_uuids(form.fields))
        return [device for device in launch_form.usable(self.view.snapshot) if device.uuid in picked], values

    def action_start(self) -> None:
        """Start the chosen recipe on the chosen GPUs, or explain in the form why it cannot start."""
        chosen = self._chosen()
        if chosen is None or self.view is None:
            return
        devices, values = chosen
        form = self.query_one("#form", Form)
        wanted = self._filled_in(devices, values)
        others = launch_form.others_on((device.uuid for device in devices), self.view.snapshot)
        twin = self._twin(wanted)
        if twin is not None:
            self._show_message(form, "warn", f"{twin.name} already runs like this.", "F5 once more starts another one.")
            return
        try:
            if self.over is not None:
                self._start_over(self.over, values, wanted)
                return
            ordered = self.entry.order(values)
            if ordered is not None:
                if self._may_submit(form, wanted):
                    self._show_message(form, "warn", "Slurm is asked to take it ...", "")
                    UNDER_WAY.start(partial(self._submit, self.entry, ordered, values), partial(left_to_slurm, ordered[0]))
                return
            job = store.start(self.entry.prepare(devices, values))
        except GputopError as error:
            self._show_message(form, "bad", error.message, error.hint)
            return
        hint = " ".join(filter(None, (others, self.entry.started(devices, values), "Its log is below.")))
        self._begun[job.id] = wanted
        self._started([job], f"Started {job.name}.", f"{hint} Esc: watch it on the dashboard.", warn=bool(others))

    def _may_submit(self, form: Form, wanted: _Form) -> bool:
        """Return whether hosts or Slurm may be asked to start the form; not before they have answered the last time."""
        if self._submitting is not None:
            self._show_message(
                form, "warn", "The last start is not answered yet.", "Its job comes into the list, or the reason."
            )
            return False
        self._submitting = wanted
        return True

    def _start_over(self, over: HostJobs, values: dict[str, str], wanted: _Form) -> None:
        """Start the chosen entry on the hosts of the form.

        Raises:
            GputopError: the form cannot be started.
        """
        form = self.query_one("#form", Form)
        hosts = parse_hosts(values.pop(hosts_form.HOSTS))
        order = replace(self.entry.order_for_hosts(values), virtual=over.virtual)
        if self._may_submit(form, wanted):
            self._show_message(form, "warn", f"Starting on {', '.join(hosts)} ...", "All of them start it, or none.")
            off = CallOff()
            UNDER_WAY.start(
                partial(self._launch_over, over, hosts, self.entry, order, values, off),
                partial(left_over_hosts, off, order, hosts),
            )

    def _launch_over(
        self,
        over: HostJobs,
        hosts: tuple[str, ...],
        entry: Launchable,
        order: NodeOrder,
        values: dict[str, str],
        off: CallOff,
    ) -> None:
        try:
            launch_over(hosts, over.transport, order, None, lambda line: None, off)
            over.look_again()
            name = order.name or order.recipe or ""
            job = Job(order.id, name, "starting", order.command, Path(), order.recipe, launch_id=order.id, hosts=hosts)
            self.post_message(Submitted(job, entry.started((), values)))
        except GputopError as error:
            over.look_again()
            self.post_message(Submitted(None, None, error))

    def _submit(self, entry: Launchable, ordered: tuple[NodeOrder, str], values: dict[str, str]) -> None:
        """Hand it to Slurm, which may take its time."""
        try:
            job = slurm_submit_apart.submit_apart(*ordered)
            self.post_message(Submitted(job, entry.started((), values)))
        except GputopError as error:
            self.post_message(Submitted(None, None, error))

    def on_submitted(self, event: Submitted) -> None:
        """Show the job, or why hosts or Slurm do not take it."""
        wanted, self._submitting = self._submitting, None
        if event.job is not None:
            if wanted is not None:
                self._begun[event.job.id] = wanted
            hint = " ".join(filter(None, (event.problem, "Its output comes below.")))
            self._started([event.job], f"{event.job.name}: {event.job.elsewhere}.", hint)
            self._slurm_due = time.monotonic() + SOON_S
        elif event.error is not None:
            self._show_message(self.query_one("#form", Form), "bad", event.error.message, event.error.hint)

    def _filled_in(self, devices: Sequence[Device], values: dict[str, str]) -> _Form:
        return self.entry.key, tuple(device.uuid for device in devices), tuple(sorted(values.items()))

    def _twin(self, wanted: _Form) -> Job | None:
        """Return the active job that was started from this form as it is, unless the user was just asked about it."""
        job = next((job for job in self.jobs if job.active and self._begun.get(job.id) == wanted), None)
        if job is not None and self._asked == wanted:
            job = None
        self._asked = wanted if job is not None else None
        return job

    def action_start_series(self) -> None:
        """Start the recipe on 1, 2, 4 … GPUs, one after another."""
        if self.over is not None:
            self.notify("Jobs run one after another on one machine only, without -H.", timeout=4)
            return
        chosen = self._chosen()
        if chosen is None or self.view is None:
            return
        form = self.query_one("#form", Form)
        usable = launch_form.usable(self.view.snapshot)
        counts = self.entry.counts(len(usable))
        if len(counts) < 2:
            self._show_message(form, "bad", "This runs on only one number of GPUs.", "Choose a recipe that takes several GPUs.")
            return
        try:
            started = series.start([self.entry.prepare(usable[:count], chosen[1]) for count in counts])
        except GputopError as error:
            self._show_message(form, "bad", error.message, error.hint)
            return
        self._started(started, f"Started {len(started)} jobs, one after another.", "c compares what they reach.")

    def _started(self, started: Sequence[Job], message: str, hint: str, *, warn: bool = False) -> None:
        self._remember()
        self.post_message(LayoutChanged(recipe=self.entry.key))
        self.entries = entries.entries()
        self._fill_recipes()
        self._show_message(self.query_one("#form", Form), "warn" if warn else "ok", message, hint)
        new = {job.id for job in started}
        self.jobs = [*reversed(started), *(other for other in self.jobs if other.id not in new)]
        if self.view is not None:
            self._draw_jobs(self.view)
        self.query_one("#jobs", ChoiceList).choose(started[0].id)
        self._follow_chosen()
        self.action_pane("jobs")

    def _show_message(self, form: Form, style: str, message: str, hint: str) -> None:
        columns = max(20, form.inner_size.width)
        form.show_message([*wrapped(message, columns, style), *wrapped(hint, columns)], launch_form.START)
        if style != "ok":
            form.choose(launch_form.START)
            form.first = 0
            form.focus()

    def action_forget(self) -> None:
        """Remove the user's chosen command from the list."""
        try:
            if entries.forget(self.entry.key):
                self.entries = entries.entries()
                self._fill_recipes()
                self._fill_form()
                self.notify("The command is forgotten; its jobs stay.", timeout=4)
        except GputopError as error:
            self.notify(str(error), severity="warning", timeout=6)

    async def action_compare(self) -> None:
        """Open the job comparison."""
        if self.over is not None:
            self.notify("Jobs are compared on the machine that they ran on, without -H.", timeout=4)
            return
        from gputop.tui.screens.compare import CompareScreen

        chosen = self.chosen_job()
        await self.app.push_screen(CompareScreen(self.jobs, chosen.id if chosen is not None else None, self.view))

    def action_stop(self) -> None:
        """Ask whether to stop the chosen job."""
        from gputop.tui.screens.stop import open_stop
        from gputop.tui.screens.stopping import StopTarget, target_of_job

        job = self.chosen_job()
        if self.view is None:
            return
        if job is None or not (job.active or job.left):
            self.notify("No running job is chosen: choose one in the jobs (3).", timeout=4)
            return
        target = target_of_job(job.id, job.name, self.view, job.left, job.elsewhere)
        if self.over is not None:
            what = f"Its processes are ended {job.elsewhere}, by the gputop there."
            target = StopTarget(target.title, what, job_id=job.id, slow=True, ask=partial(self.over.stop, job))
        open_stop(self.app, target, self.view)
