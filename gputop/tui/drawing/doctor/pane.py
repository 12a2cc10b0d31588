"""The doctor's pane: the first problems, each with its evidence and its fix. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.doctor.findings.finding import Finding, is_problem
from gputop.doctor.findings.subjects import name_of, names_of_runs
from gputop.groups import compute_uses
from gputop.snapshot import LIVE_STATES, Snapshot
from gputop.tui.drawing.doctor.titles import first_clause
from gputop.tui.drawing.line import Drawing, Line, clean, clip, clip_text, line, plain, spread, text_width, wrap
from gputop.tui.state.view import View

MIN_LINES, SHARE_MOST = 3, 0.16
"""Lines that a first finding needs, and the share of the screen that findings may take."""
MAX_EVIDENCE = 3
MAX_FIX_LINES = 8
"""How many items of evidence and lines of the fix the pane shows; the doctor's screen shows all."""
MIN_LINES_FOR_LONG_TITLE = 6
"""With fewer lines, a long title takes one line instead of two."""
MAX_NOT_JUDGED = 2
"""How many rules that could not judge are named."""
MIN_TITLE_CELLS = 16
"""A title is cut for the name of its run, but not below this."""
_MARKS = {"error": ("✗", "x", "bad"), "warning": ("!", "!", "warn"), "info": ("i", "i", "dim")}


def draw_doctor(view: View, width: int, height: int) -> Drawing:
    """Return the pane: the first finding in full, the others as far as they fit (each at least by its headline).

    Undecided suspicions take the remaining lines.
    """
    findings, names = view.findings, names_of_runs(view.snapshot)
    lines: list[Line] = []
    for place, finding in enumerate(findings):
        # Reserve one line for each later headline.
        room = height - len(lines) - (len(findings) - place - 1)
        name = name_of(finding, view.snapshot, names)
        lines.extend(brief_finding(finding, width, max(1, room), view.settings.ascii, name))
    lines.extend(undecided_lines(view, width)[: max(0, height - len(lines))] if findings else _healthy(view, width, height))
    title = doctor_title(findings)
    if not findings and height <= 0 and not view.loading:
        title = line(("Doctor: ", "title"), *_in_a_line(view))
    return Drawing(title, tuple(lines), subtitle=line(("d", "key"), (" full report", "dim")))


def doctor_lines_wanted(view: View, width: int, room: int) -> int:
    """Return how many of ``room`` lines the findings need; none without findings, because the title says so."""
    if not view.findings:
        return 0
    most = max(MIN_LINES, int(room * SHARE_MOST))
    return min(most, len(draw_doctor(view, width, most).lines))


def doctor_title(findings: Sequence[Finding]) -> Line:
    """Return "Doctor: 1 problem, 1 possible"; with neither, count the notes instead."""
    problems = [finding for finding in findings if is_problem(finding)]
    possible = sum(finding.severity != "info" for finding in findings) - len(problems)
    if problems:
        worst = "bad" if any(finding.severity == "error" for finding in problems) else "warn"
        more = f", {possible} possible" if possible else ""
        return line(("Doctor: ", "title"), (f"{len(problems)} problem{'s' * (len(problems) != 1)}", worst), (more, "warn"))
    if possible:
        return line(("Doctor: ", "title"), (f"{possible} possible problem{'s' * (possible != 1)}", "warn"))
    if findings:
        return line(("Doctor: ", "title"), (f"{len(findings)} note{'s' * (len(findings) != 1)}", "dim"))
    return line(("Doctor", "title"))


def headline(finding: Finding, width: int, ascii_only: bool = False, title: str | None = None, run: str = "") -> Line:
    """Return "✗ A07 title · run … confidence" in exactly ``width`` cells; ``title`` replaces a finding's long title."""
    mark, plain_mark, style = _MARKS.get(finding.severity, _MARKS["info"])
    text, name = clean(title or finding.title), clean(run)
    if not name:
        text = _without_part_of_a_number(text, width - text_width(f"? {finding.id}   {finding.confidence}"))
    else:  # it tells two findings apart, so the title is cut before it
        room = width - text_width(f"? {finding.id}  - {name}  {finding.confidence}")
        text = _without_part_of_a_number(text, max(MIN_TITLE_CELLS, room))
    left = line(
        (plain_mark if ascii_only else mark, style),
        " ",
        (f"{clean(finding.id)} ", "dim"),
        (text, "value"),
        (f" {'-' if ascii_only else '·'} {name}" if name else "", "dim"),
    )
    return spread(left, line((finding.confidence, "text" if finding.confidence == "certain" else "dim")), width)


def _without_part_of_a_number(text: str, cells: int) -> str:
    """Return the text in at most ``cells`` cells; "since step 300" is never cut to "since step 3…", which is another step."""
    cut = clip_text(text, cells)
    if cut == text:
        return cut
    kept = cut[:-1]
    if kept[-1:].isdigit() and re.match(r"[ .,]?\d", text[len(kept) :]):
        kept = kept.rstrip("0123456789., ")
    return f"{kept}…" if kept else cut


def brief_finding(finding: Finding, width: int, room: int, ascii_only: bool, run: str = "") -> list[Line]:
    """Return a finding in at most ``room`` lines; the headline takes precedence, then the fix, then the evidence."""
    title = [
        plain(part)
        for part in wrap(clean(finding.title), max(10, width - 5 - len(finding.id) - len(finding.confidence) - len(run)))
    ]
    if room < 2 or not title:
        return [headline(finding, width, ascii_only, run=run)]
    if len(title) == 2 and room >= MIN_LINES_FOR_LONG_TITLE:
        head = [headline(finding, width, ascii_only, title[0], run), clip(line("  ", (title[1], "value")), width)]
    else:
        head = [headline(finding, width, ascii_only, run=run)]
    fix = [clip(line("  ", *part), width) for part in _fix_within(finding.fix, max(8, width - 2), min(MAX_FIX_LINES, room - 1))]
    evidence = [
        clip(line("  · " if first else "    ", *part), width)
        for fact in finding.evidence[:MAX_EVIDENCE]
        for first, part in zip((True, False), wrap(clean(fact.text), max(8, width - 4)), strict=False)
    ]
    return [*head, *evidence[: max(0, room - len(head) - len(fix))], *fix][:room]


def _fix_within(fix: str, width: int, room: int) -> list[Line]:
    """Return at most ``room`` lines of the fix. If not all fit, it begins with its first command, not with a comment."""
    whole = _fix(fix, width)
    if len(whole) <= room:
        return whole
    code = fix.splitlines()
    first = next((place for place, text in enumerate(code) if text.strip() and not text.lstrip().startswith("# ")), 0)
    return _fix("\n".join(code[first:]), width)[:room]


def _fix(fix: str, width: int) -> list[Line]:
    """Return the fix, each line of code on its own line after the word "fix:"."""
    label = "fix: "
    lines: list[Line] = []
    for number, code in enumerate(fix.splitlines() or [""]):
        # A line of code keeps its own indentation; overflow continues on the next line, indented further.
        start = label if number == 0 else " " * (len(label) + len(code) - len(code.lstrip()))
        for place, part in enumerate(wrap(clean(code.strip()), max(8, width - len(start)), "ok", indent="  ")):
            lines.append(line((start if place == 0 else " " * len(start), "ok"), *part))
    return lines


def _in_a_line(view: View) -> Line:
    """Return the title's text if the pane consists of the title only."""
    if not view.undecided:
        return line(("No problem found", "ok"))
    first = view.undecided[0]
    return line(
        ("Undecided", "text"),
        (f" · {'' if first.rule is None else 'watching for: '}{clean(first_clause(first.title))}", "dim"),
    )


def looked_at(snapshot: Snapshot) -> str:
    """Return what was examined, in one sentence."""
    live, starting, count = _counts(snapshot)
    parts = [
        f"{len(snapshot.devices)} GPU{'s' * (len(snapshot.devices) != 1)}",
        f"{len(snapshot.processes)} process{'es' * (len(snapshot.processes) != 1)}",
        f"{live} live run{'s' * (live != 1)}",
        *([f"{starting} run{'s' * (starting != 1)} starting"] if starting else []),
        *([f"{count} run{'s' * (count != 1)} not tracked"] if count else []),
    ]
    return f"Looked at {', '.join(parts[:-1])} and {parts[-1]}."


def _counts(snapshot: Snapshot) -> tuple[int, int, int]:
    """Return how many runs are live and tracked, how many are starting, and how many are not tracked."""
    live = sum(run.state in LIVE_STATES and run.run_id not in snapshot.untracked_ids for run in snapshot.runs)
    starting = sum(run.starting for run in snapshot.process_runs)
    return live, starting, len(snapshot.process_runs) - starting


def _healthy(view: View, width: int, height: int) -> list[Line]:
    """List what was examined, so that "no problem" cannot be mistaken for "nothing seen"."""
    if view.loading:
        return [line(("Looking for problems …", "dim"))]
    snapshot = view.snapshot
    live, starting, count = _counts(snapshot)
    lines = [*undecided_lines(view, width)] or [line(("No problem found", "ok"))]
    lines += wrap(looked_at(snapshot), width, "dim")
    if count:
        lines.extend(wrap("Rules that need a run's own records are not judged: gputop run -- … records them.", width, "dim"))
    elif live == starting == 0 and not any(compute_uses(process) or process.torch_mapped for process in snapshot.processes):
        lines.extend(wrap("Start a training run to have it examined: l launches a demo.", width, "dim"))
    for abstained in view.abstained[:MAX_NOT_JUDGED]:
        lines.extend(wrap(f"Not judged ({abstained.rule}): {clean(abstained.why)} {clean(abstained.needs)}", width, "dim"))
    if len(view.abstained) > MAX_NOT_JUDGED:
        lines.extend(
            wrap(f"{len(view.abstained) - MAX_NOT_JUDGED} more could not be judged: press d for the reasons.", width, "dim")
        )
    return lines[: max(1, height)]


def undecided_lines(view: View, width: int) -> list[Line]:
    """Return suspicions that are not decided yet; nothing if all are.

    Seconds are left out: they would change the screen every second.
    """
    names = _undecided_names(view)
    return wrap(f"Undecided: {'; '.join(names)}", width) if names else []


def undecided_items(view: View, width: int) -> list[Line]:
    """Return the same as a list, for a pane whose title says that it is undecided."""
    return [part for name in _undecided_names(view) for part in wrap(f"· {name}", width, indent="  ")]


def _undecided_names(view: View) -> list[str]:
    """Return what is undecided; one rule about several runs is one, with their names."""
    names = names_of_runs(view.snapshot)
    found: dict[str, tuple[str, dict[str, None]]] = {}
    for item in view.undecided:
        title = clean(item.title) if item.rule is None else f"watching for: {clean(item.title)}"
        name = clean(name_of(item, view.snapshot, names))
        runs = found.setdefault(item.rule if item.rule is not None and name else title, (title, {}))[1]
        if item.rule is not None and name:
            runs[name] = None
    mark = "-" if view.settings.ascii else "·"
    return [f"{title} {mark} {', '.join(runs)}" if runs else title for title, runs in found.values()]
