"""The jobs on the launch screen and the log of the chosen one: polled, drawn, compared, stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from textual import work
from textual.geometry import Size

from gputop.errors import GputopError
from gputop.jobs import slurm, store
from gputop.jobs.output import logs
from gputop.jobs.store import Job
from gputop.over_hosts.watched import HostJobs, HostsLog
from gputop.tui.drawing import jobs as drawn_jobs
from gputop.tui.drawing.doctor.explanation import explanation_lines
from gputop.tui.drawing.line import Span, clean
from gputop.tui.screens.base import SubScreen
from gputop.tui.screens.launch.log import JobLog
from gputop.tui.screens.launch.polling import Follower, JobsPolled, poll
from gputop.tui.screens.launch.submitting import SlurmSaid
from gputop.tui.state.released_worker import releasing_worker
from gputop.tui.state.under_way import UNDER_WAY
from gputop.tui.state.view import View
from gputop.tui.widgets.choice_list import ChoiceList, Item

FRAME_LINES = 2
"""Lines of a pane's frame."""
JOBS_LINES, JOBS_LINES_LOW, JOBS_LINES_SMALL = 10, 6, 5
"""Maximum lines of the list of jobs with its frame; on a low and on a small screen."""
SLURM_POLL_S = 10.0
"""How often to ask Slurm: it serves a whole cluster."""


class JobsScreen(SubScreen):
    """A screen with the panes ``#jobs`` and ``#log``. A subclass yields them, and calls ``poll`` at intervals."""

    def __init__(self, view: View | None, over: HostJobs | None) -> None:
        super().__init__(view)
        self.over = over
        """The hosts on which it starts and lists jobs; None: this machine."""
        self.jobs: list[Job] = []
        self.problems: tuple[GputopError, ...] = ()
        self.starts = 0
        """How many jobs this screen has started: a list from before a start lacks that job."""
        self._followed: str | None = None
        self._follower: Follower | None = None
        self._polling = False
        self._lines_given = 0
        """Lines given to the list of jobs; 0 before the screen's first layout, which happens by itself."""
        self.polled = False
        """Whether the jobs are known."""
        self._asking_slurm = False
        self._slurm_due = 0.0
        """When to ask Slurm again, in monotonic seconds."""
        self._slurm_problem: str | None = None
        """Why Slurm did not answer last time; it is reported once."""

    def take_size(self, size: Size) -> None:
        """Give empty panes one line, and the others the room."""
        super().take_size(size)
        self.choose_classes(idle=self._idle())

    def set_heights(self) -> None:
        """Give the list of jobs the lines that it needs; the log gets the others."""
        super().set_heights()
        self._lines_given = self._jobs_lines()
        self.query_one("#jobs").styles.height = self._lines_given

    def make_room(self) -> None:
        """Fit the jobs and the log to the rows that they need, if these changed."""
        changed = self.has_class("idle") != self._idle() or self._lines_given != self._jobs_lines()
        self.choose_classes(idle=self._idle())
        if changed and self._lines_given:
            self.settle()

    def _jobs_lines(self) -> int:
        most = JOBS_LINES_SMALL if self.has_class("small") else JOBS_LINES_LOW if self.has_class("low") else JOBS_LINES
        wanted = FRAME_LINES + (1 + len(self.jobs) + len(self.problems) if self.jobs else max(1, len(self.problems)))
        return min(most, wanted)

    def _idle(self) -> bool:
        """Return whether there is no job to show; until the first poll has ended, the stream says whether one has a run."""
        if self.polled or self.view is None:
            return not self.jobs
        return not any(run.job_id is not None for run in self.view.snapshot.runs)

    def _draw_jobs(self, view: View) -> None:
        pane = self.query_one("#jobs", ChoiceList)
        columns = max(20, pane.inner_size.width)
        unreadable = [Item((Span(clean(problem.message), "warn"),)) for problem in self.problems]
        if not self.jobs and unreadable:
            pane.set_items(unreadable)
            return
        if not self.jobs:
            none = "No job yet. F5 starts the chosen recipe; its log comes below."
            asking = self.over is not None and not self.polled
            pane.set_items([Item((Span("The hosts are asked for their jobs." if asking else none, "dim"),))])
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

    def chosen_job(self) -> Job | None:
        """Return the job under the table's cursor."""
        chosen = self.query_one("#jobs", ChoiceList).chosen
        return next((job for job in self.jobs if job.id == chosen), None)

    def poll(self) -> None:
        """Poll the jobs and the log, unless the previous poll still waits for the file system."""
        if not self._polling:
            self._polling = True
            self._poll(self._follower, self.starts)
        # Not a timer: a stopped one keeps its closed screen in memory until it would have fired.
        if time.monotonic() >= self._slurm_due:
            self.ask_slurm()

    def on_unmount(self) -> None:
        """End the connections over which a log is read."""
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
            UNDER_WAY.start(
                lambda: self._slurm_said(slurm.refresh(store.list_jobs())), str, lambda error: self._slurm_said([error])
            )

    def _slurm_said(self, problems: Sequence[GputopError]) -> None:
        self.post_message(SlurmSaid([str(problem) for problem in problems]))

    def on_slurm_said(self, event: SlurmSaid) -> None:
        """Report once why Slurm does not answer."""
        self._asking_slurm = False
        for problem in event.problems:
            if problem != self._slurm_problem:
                self.app.notify(problem, severity="warning", timeout=6)
        self._slurm_problem = event.problems[-1] if event.problems else None

    @work(thread=True)
    @releasing_worker
    def _poll(self, follower: Follower | None, starts: int) -> None:
        self.post_message(poll(follower, self.over, starts))

    def on_jobs_polled(self, event: JobsPolled) -> None:
        """Show the result of a poll."""
        self._polling = False
        if event.found is not None and event.starts == self.starts:
            self.jobs, self.problems, self.polled = list(event.found.jobs), event.found.problems, True
            self.make_room()
        if self.view is not None and self.size:
            self._draw_jobs(self.view)
        log = self.query_one("#log", JobLog)
        if event.follower is not None and event.follower is self._follower:
            log.explain(explanation_lines(event.failure, max(20, log.inner_size.width)))
            log.add(event.texts, event.pending)
        self._follow_chosen()

    def _follow_chosen(self) -> None:
        job = self.chosen_job()
        log = self.query_one("#log", JobLog)
        if job is None:
            return
        log.title = (Span("Log of ", "title"), Span(clean(job.name), "accent"), Span(f"  {job.id}", "dim"))
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
            self._follower = logs.LogFollower(self._followed or "", log.label)
        except GputopError as error:
            self._follower = None
            log.add([str(error)])
            return
        self.poll()

    def on_job_log_rank_chosen(self) -> None:
        """Follow another rank."""
        self._follow_rank()

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
        from gputop.tui.screens.stop import StopScreen
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
        self.app.push_screen(StopScreen(target, self.view.settings.ascii))
