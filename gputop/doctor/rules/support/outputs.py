"""The output of failed runs: known error texts, and the exception in the journal, by run.

For rules that judge a text: most of these runs have ended and no longer have a job. This module contains no rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import fixes
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.meaning.observed import UNKNOWN_ID
from gputop.doctor.logs.names import less_specific
from gputop.doctor.logs.patterns import table as patterns
from gputop.doctor.logs.patterns.pattern import HINT
from gputop.facts.table import Facts
from gputop.snapshot import LIVE_STATES, JobState, LogMatch, Rank, Run, RunState, Snapshot

_TEXT_MAX = 160
_NOT_FAILED: tuple[RunState | JobState, ...] = ("starting", "running", "finished")
HISTORY_AFTER_S = 3600.0
"""The end of a run stays a finding for an hour (our choice); ``gputop runs show`` reports it as long as the run is stored."""
_LINES_MAX = 20
"""Number of lines searched in an exception's message."""


@dataclass(frozen=True, slots=True)
class Output:
    """One run (or a launch without a journal) and its known error texts. ``job`` is None once the run has ended on this
    machine.
    """

    subject: str
    run: Run | None
    group: RankGroup | None
    matches: tuple[LogMatch, ...]

    @property
    def run_id(self) -> str | None:
        """The run's id; None for a launch without a journal."""
        return self.run.run_id if self.run is not None else None

    @property
    def devices(self) -> tuple[str, ...]:
        """UUIDs of the devices that the run uses."""
        return tuple(sorted(self.group.used)) if self.group is not None else ()

    @property
    def pids(self) -> tuple[int, ...]:
        """PIDs of the ranks that are still alive."""
        return self.group.pids if self.group is not None else ()

    def first(self, *patterns: str) -> LogMatch | None:
        """Return the first text that matches one of the patterns."""
        return next((match for match in self.matches if match.pattern in patterns), None)

    def rank(self, number: int | None) -> Rank | None:
        """Return a rank's record; the first rank's for None."""
        ranks = self.run.ranks if self.run is not None else ()
        return next((rank for rank in ranks if number is None or rank.rank == number), None)

    @property
    def launch_state(self) -> JobState | None:
        """The state of the launched job that printed the text; None if unknown."""
        return next((match.job_state for match in self.matches if match.job_state is not None), None)

    @property
    def survived(self) -> bool:
        """Whether the run survived its error texts: it is alive, or ended with exit code 0.

        A launch without a journal is alive as long as its job is, or, if that is unknown, as long as it has processes.
        """
        launch = self.launch_state
        if launch == "failed":
            return False
        if self.run is not None:
            return self.run.state in _NOT_FAILED
        return launch in _NOT_FAILED if launch is not None else self.group is not None

    @property
    def survival(self) -> Fact | None:
        """The evidence that the text did not end the run; None if it did or may have."""
        if not self.survived:
            return None
        if (self.run.state if self.run is not None else self.launch_state) == "finished":
            return Fact("the job ended without an error after this text", "finished", "the job's state")
        return Fact("the job continued after this text", "running", "the job's state")


def outputs_of(evidence: Evidence) -> tuple[Output, ...]:
    """Return every run and launch on this machine with a known error text, in snapshot order."""
    found: tuple[Output, ...] | None = evidence.memo.get("outputs")
    if found is None and evidence.snapshot is not None:
        found = evidence.memo["outputs"] = _outputs_of(evidence, evidence.snapshot)
    return found or ()


def _outputs_of(evidence: Evidence, snapshot: Snapshot) -> tuple[Output, ...]:
    groups = {group.run_id: group for group in evidence.groups if group.run_id is not None}
    found = []
    begun: dict[tuple[str, ...], float] | None = None
    has_error = Facts.error.stands_in
    for run in snapshot.runs:
        # Not cached like facts_of: most runs in a long list ended without an error, and nothing else asks for their facts.
        failed = [rank for rank in run.ranks if has_error(rank.facts)]
        if not failed and not snapshot.logs:
            continue
        begun = latest_of_commands(snapshot.runs) if begun is None else begun
        if run.state not in LIVE_STATES and _is_history(run, begun, snapshot.time):
            continue
        matches = [
            m
            for m in snapshot.logs
            # A part of a multi-host launch that has no journal is a run with the job's id.
            if run.run_id in (m.run_id, m.job_id) or (m.run_id is None and m.job_id and m.job_id == run.job_id)
        ]
        if failed:
            matches += _exceptions(failed, run.run_id, {match.pattern for match in matches})
        if failed and all(match.cascade for match in matches) and not any(r.state in LIVE_STATES for r in run.ranks):
            matches = [*_unexplained(run, matches), *matches]
        if matches:
            found.append(Output(run.run_id, run, groups.get(run.run_id), tuple(matches)))
    if not snapshot.logs:
        return tuple(found)
    taken = {run.run_id for run in snapshot.runs} | {run.job_id for run in snapshot.runs}
    launches = dict.fromkeys(m.job_id or m.run_id for m in snapshot.logs if not {m.job_id, m.run_id} & (taken - {None}))
    for name in launches:
        if name is not None:
            group = next((group for group in evidence.groups if name in _launches(group)), None)
            matches = [match for match in snapshot.logs if name in (match.job_id, match.run_id)]
            found.append(Output(group.key if group is not None else name, None, group, tuple(matches)))
    return tuple(found)


def latest_of_commands(runs: Iterable[Run]) -> dict[tuple[str, ...], float]:
    """Return when each command was last started."""
    latest: dict[tuple[str, ...], float] = {}
    for run in runs:
        if run.command and run.created_at is not None:
            latest[run.command] = max(latest.get(run.command, 0.0), run.created_at)
    return latest


def _is_history(run: Run, latest: dict[tuple[str, ...], float], now: float) -> bool:
    """Return whether the end of a run is no longer of interest: its command was started again, or it ended long ago."""
    if run.ended_at is not None and now - run.ended_at > HISTORY_AFTER_S:
        return True
    return run.command is not None and run.created_at is not None and latest.get(run.command, 0.0) > run.created_at


def _launches(group: RankGroup) -> set[str | None]:
    """Return the ids of a group's texts: of the job that started it, and of the output that is read."""
    return {group.output_id} | {
        process.environment.gputop_job_id for process in group.processes if process.environment is not None
    }


def _exceptions(ranks: Iterable[Rank], run_id: str, known: set[str]) -> list[LogMatch]:
    """Return the known texts in the journal's exceptions that the output does not contain, or whose output was not captured."""
    found = []
    for rank in ranks:
        failure = model_facts.failure(rank)
        if failure is None:
            continue
        line = f"{failure.type}: {failure.message}"
        for name, cause, cascade in _patterns(line):
            if name not in known:
                found.append(LogMatch(name, cause, line, run_id, None, rank.rank, failure.where, cascade=cascade))
    return found


def is_consequence(rank: Rank, matches: Iterable[LogMatch]) -> bool:
    """Return whether a rank's end follows from another rank's, by its error text or by their launcher's SIGTERM."""
    failure = model_facts.failure(rank)
    if failure is None and rank.exit_code == -15:
        return True
    if any(match.cascade for match in matches if match.rank == rank.rank):
        return True
    if failure is None:
        return False
    known = _patterns(f"{failure.type}: {failure.message}")
    lost = "closed by peer" in failure.message or "Connection reset" in failure.message
    return lost or (bool(known) and all(cascade for _, _, cascade in known))


def _unexplained(run: Run, matches: list[LogMatch]) -> list[LogMatch]:
    """Return the exception of the first rank that failed if no pattern explains its text.

    None if another rank died silently: that rank may be the cause (rule G04).
    """
    found = []
    for rank in run.ranks:
        failure = model_facts.failure(rank)
        if rank.state in _NOT_FAILED or is_consequence(rank, matches):
            continue
        if failure is None:
            if rank.exit_code is not None:
                return []
        elif not _patterns(f"{failure.type}: {failure.message}"):
            line = f"{failure.type}: {failure.message}".rstrip(": ")
            match = LogMatch(UNKNOWN_ID, None, line, run.run_id, None, rank.rank, failure.where)
            found.append((rank.last_log_at or 0.0, match))
    return [min(found, key=lambda item: item[0])[1]] if found else []


@lru_cache(maxsize=256)
def _patterns(text: str) -> tuple[tuple[str, str | None, bool], ...]:
    """Return (name, cause, cascade) of the known failures in an exception. Cached: the same exception arrives every second."""
    found: dict[str, tuple[str, str | None, bool]] = {}
    found_in = []
    vague = set()
    for line in text.splitlines()[:_LINES_MAX]:
        for pattern, _ in patterns.matches(line):
            if pattern.kind != HINT:
                found.setdefault(pattern.id, (pattern.id, pattern.cause, pattern.cascade))
                found_in.append((pattern.id, line))
                vague |= {pattern.id} if pattern.vague else set()
    found.pop(less_specific(found_in) or "", None)
    telling = [known for name, known in found.items() if name not in vague]
    return tuple(telling or found.values())


def fix_of(match: LogMatch) -> str | None:
    """Return the fix for a known text; None if this gputop does not know it."""
    row = patterns.pattern_of(match.pattern, match.line)
    return row[0].command(row[1]) if row is not None else None


def foreign_memory(output: Output) -> LogMatch | None:
    """Return the text that blames another process for a full GPU; None if the process is one of the run's own ranks."""
    match = output.first("oom_other_proc")
    row = patterns.pattern_of(match.pattern, match.line) if match is not None else None
    own = {str(pid) for pid in (*output.pids, *(rank.pid for rank in (output.run.ranks if output.run is not None else ())))}
    return None if row is not None and row[1].get("pid") in own else match


def soften(output: Output, finding: Finding) -> Finding:
    """Limit a finding based only on a text: to "possible" and "warning" if the job survived it, to "likely" if it may have."""
    after = output.survival
    if after is None:
        return at_most_likely(output, finding)
    severity = "warning" if finding.severity == "error" else finding.severity
    return replace(finding, severity=severity, confidence="possible", evidence=(*finding.evidence, after))


def at_most_likely(output: Output, finding: Finding) -> Finding:
    """Limit a finding to "likely" if nothing proves that the text ended the run: its exit code is unknown."""
    unproven = finding.confidence == "certain" and any(match.unproven for match in output.matches)
    return replace(finding, confidence="likely") if unproven else finding


def first_logged(evidence: Evidence, group: RankGroup, *patterns: str) -> LogMatch | None:
    """Return the first text of one of these patterns in the output of a group that is alive."""
    return next((match for match in evidence.logs(group) if match.pattern in patterns), None)


def quoted(match: LogMatch) -> Fact:
    """Return the line as evidence, shortened."""
    line = " ".join(match.line.split())
    text = line if len(line) <= _TEXT_MAX else f"{line[: _TEXT_MAX - 1]}…"
    who = f"rank {match.rank} printed: " if match.rank is not None else ""
    if match.file is None:
        return Fact(f"{who}{text}", text, "the run's output")
    return Fact(f"{who}{text}", text, f"{match.file}:{match.line_number}" if match.line_number is not None else match.file)


def command_of(output: Output) -> str:
    """Return the command that started the run, as far as it is known."""
    if output.group is not None:
        return fixes.own_command(output.group)
    if output.run is not None and output.run.command:
        return fixes.shell_join(output.run.command)
    return f"python {fixes.SCRIPT_UNKNOWN}"
