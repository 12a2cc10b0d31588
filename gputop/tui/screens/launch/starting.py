"""Starts what the launch screen's form describes: here, on hosts, through Slurm, or on several numbers of GPUs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gputop.errors import GputopError
from gputop.hosts.names import parse_hosts
from gputop.jobs import series, slurm_submit_apart, store
from gputop.jobs.store import Job
from gputop.over_hosts.launch import Cancellation, launch_over
from gputop.over_hosts.watched import HostJobs
from gputop.recipes.nodes import NodeOrder
from gputop.snapshot import Device
from gputop.tui.drawing.prose import wrapped
from gputop.tui.screens.launch import entries, hosts_form
from gputop.tui.screens.launch import form as launch_form
from gputop.tui.screens.launch.entries import Launchable
from gputop.tui.screens.launch.following import JobsScreen
from gputop.tui.screens.launch.recipe_list import RecipeList
from gputop.tui.screens.launch.submitting import Submitted, left_over_hosts, left_to_slurm
from gputop.tui.state.under_way import UNDER_WAY
from gputop.tui.state.view import View
from gputop.tui.widgets.form import Form

SOON_S = 1.5
"""How long after its submission to ask Slurm about a job: if there are free nodes, it starts within a second."""

_Form = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]
"""What a job is started from: the entry's key, the UUIDs of the GPUs, the values."""


class StartingScreen(JobsScreen):
    """A screen that starts ``entry`` from the pane ``#form``."""

    def __init__(self, view: View | None, over: HostJobs | None) -> None:
        super().__init__(view, over)
        self.entries: list[Launchable] = entries.entries()
        self.entry: Launchable = self.entries[0]
        self._begun: dict[str, _Form] = {}
        """How the form was filled in when each job was started here."""
        self._asked: _Form | None = None
        """The form for which the user was asked whether to start a second job like it."""
        self._submitting: _Form | None = None
        """The form that hosts or Slurm were asked to start, until they have answered."""

    def _started(self, started: Sequence[Job], message: str, hint: str, *, warn: bool = False) -> None:
        """Show the jobs that were just started, with a message in the form."""
        raise NotImplementedError

    def _chosen(self) -> tuple[list[Device], dict[str, str]] | None:
        """Return the chosen GPUs and values; if something is wrong, show it in the form and return None."""
        form = self.query_one("#form", Form)
        if self.view is None:
            self.notify("Nothing can start before the GPUs are listed. Press it again then.", timeout=4)
            return None
        if self.query_one("#recipes", RecipeList).chosen is None:
            self.notify("No recipe contains the letters that are searched for.", timeout=4)
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
            self._show_message(
                form, "warn", f"{twin.name} already runs with these settings.", "Press F5 again to start another one."
            )
            return
        try:
            if self.over is not None:
                self._start_over(self.over, values, wanted)
                return
            ordered = self.entry.order(values)
            if ordered is not None:
                order, sbatch = ordered
                order = replace(order, virtual=launch_form.virtual_asked(self.view.snapshot))
                if self._may_submit(form, wanted):
                    self._show_message(form, "warn", "Submitting to Slurm ...", "")
                    UNDER_WAY.start(
                        partial(self._submit, self.entry, order, sbatch, values),
                        partial(left_to_slurm, order),
                        self._not_started,
                    )
                return
            job = store.start(self.entry.prepare(devices, values))
        except GputopError as error:
            self._show_message(form, "bad", error.message, error.hint)
            return
        hint = " ".join(filter(None, (others, self.entry.started(devices, values), "Its log is below.")))
        self._begun[job.id] = wanted
        self._started([job], f"Started {job.name}.", f"{hint} Esc: watch it on the dashboard.", warn=bool(others))

    def _may_submit(self, form: Form, wanted: _Form) -> bool:
        """Return whether hosts or Slurm may be asked to start the form: only once they have answered the last request."""
        if self._submitting is not None:
            self._show_message(
                form, "warn", "The last start has not been answered yet.", "Its job will appear in the list, or the error here."
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
            cancellation = Cancellation()
            UNDER_WAY.start(
                partial(self._launch_over, over, hosts, self.entry, order, values, cancellation),
                partial(left_over_hosts, cancellation, order, hosts, over.transport),
                self._not_started,
            )

    def _launch_over(
        self,
        over: HostJobs,
        hosts: tuple[str, ...],
        entry: Launchable,
        order: NodeOrder,
        values: dict[str, str],
        cancellation: Cancellation,
    ) -> None:
        try:
            launch_over(hosts, over.transport, order, None, lambda line: None, cancellation)
        finally:
            over.expire_listing()
        name = order.name or order.recipe or ""
        job = Job(order.id, name, "starting", order.command, Path(), order.recipe, launch_id=order.id, hosts=hosts)
        self.post_message(Submitted(job, entry.started((), values)))

    def _submit(self, entry: Launchable, order: NodeOrder, sbatch: str, values: dict[str, str]) -> None:
        """Submit it to Slurm, which may take a while."""
        job = slurm_submit_apart.submit_apart(order, sbatch)
        self.post_message(Submitted(job, entry.started((), values)))

    def _not_started(self, error: GputopError) -> None:
        self.post_message(Submitted(None, None, error))

    def on_submitted(self, event: Submitted) -> None:
        """Show the job, or why hosts or Slurm refused it."""
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
        try:
            ordered = self.entry.order(chosen[1])
        except GputopError as error:
            self._show_message(form, "bad", error.message, error.hint)
            return
        if ordered is not None:
            hint = "Empty the field Slurm, or press F5."
            self._show_message(form, "bad", "Jobs run one after another on this machine only.", hint)
            return
        usable = launch_form.usable(self.view.snapshot)
        counts = self.entry.counts(len(usable))
        if len(counts) < 2:
            self._show_message(
                form, "bad", "This recipe runs on a fixed number of GPUs.", "Choose a recipe that takes several GPUs."
            )
            return
        try:
            started = series.start([self.entry.prepare(usable[:count], chosen[1]) for count in counts])
        except GputopError as error:
            self._show_message(form, "bad", error.message, error.hint)
            return
        self._started(started, f"Started {len(started)} jobs, one after another.", "Press c to compare them.")

    def _show_message(self, form: Form, style: str, message: str, hint: str) -> None:
        columns = max(20, form.inner_size.width)
        form.show_message([*wrapped(message, columns, style), *wrapped(hint, columns)], launch_form.START)
        if style != "ok":
            form.choose(launch_form.START)
            form.first = 0
            form.focus()
