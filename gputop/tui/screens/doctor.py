"""The doctor's screen: what is wrong, verdict first; the chosen finding in full; which rules could not judge."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical

from gputop.doctor.findings.finding import EVIDENCE, Finding
from gputop.doctor.findings.subjects import name_of, names_of_runs
from gputop.tui.drawing.doctor import finding as finding_text
from gputop.tui.drawing.doctor.pane import headline, looked_at, undecided_items
from gputop.tui.drawing.doctor.rules import history_lines, why_not_lines
from gputop.tui.drawing.gpus.involved import draw_involved
from gputop.tui.drawing.line import Drawing, Line, Span, dimmed
from gputop.tui.drawing.prose import BLANK, heading, wrapped
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.state import copying
from gputop.tui.state.copying import Copy
from gputop.tui.state.grouping import listed
from gputop.tui.state.view import View
from gputop.tui.widgets.choice_list import ChoiceList, Item
from gputop.tui.widgets.ruled import RuledPane

_WHY_NOT = "why not"
_HISTORY = "history"
_ABSTAINED = "abstained"
_HEALTHY = "healthy"
_UNDECIDED = "undecided"
_LIST_ROWS_SMALL = 8
"""Maximum rows of the list on a small screen."""


class Findings(ChoiceList, RuledPane):
    """The list of what was found, under a rule."""


class DoctorScreen(SubScreen):
    """Lists the findings; the arrow keys choose one, Tab focuses its text for scrolling."""

    NAME = "doctor"
    DEFAULT_CSS = """
    DoctorScreen #body { layout: horizontal; }
    DoctorScreen #findings { width: 40%; }
    DoctorScreen #right { width: 1fr; }
    DoctorScreen #finding { height: 1fr; }
    DoctorScreen.small #body { layout: vertical; }
    DoctorScreen.small #findings { width: 1fr; }
    DoctorScreen.small #involved { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy_all", "copy the whole finding", show=False),
        Binding("d", "back", "back", show=False),
        Binding("enter", "read", "read and scroll the finding", show=False),
    ]
    HINTS = (
        KeyHint("Up/Down", "choose a finding", "", 4),
        KeyHint("Enter", "read and scroll it", "screen.read", 3),
        KeyHint("c", "copy it", "screen.copy_all", 6),
        KeyHint("y", "copy its fix", "app.copy", 1),
    )

    _involved: Drawing | None = None
    """The GPUs and ranks of the chosen finding; None if it names none."""

    def compose_body(self) -> ComposeResult:
        """Yield the list and the text panes."""
        with Container(id="body"):
            yield Findings("Findings", id="findings")
            with Vertical(id="right"):
                yield RuledPane(id="finding")
                yield RuledPane(id="involved")

    def set_heights(self) -> None:
        """Draw the list, and fit its height and that of the GPUs involved to their contents."""
        super().set_heights()
        if self.view is not None:
            self._draw_list(self.view)
            self._find_involved(self.view)

    def _draw_list(self, view: View) -> None:
        shown = self.query_one("#findings", ChoiceList)
        columns = max(20, shown.inner_size.width)
        ascii_only = view.settings.ascii
        names = names_of_runs(view.snapshot)
        items = [
            Item(headline(finding, columns, ascii_only, run=name_of(finding, view.snapshot, names)), _key(finding, number))
            for number, finding in enumerate(view.findings)
        ]
        if not items:
            word, style = ("undecided", "text") if view.undecided else ("no problem found", "ok")
            items.append(Item((Span(word, style),), _HEALTHY))
        elif view.undecided:
            items.append(Item((Span(f"undecided ({len(view.undecided)})", "dim"),), _UNDECIDED))
        explained = _explained(view)
        if explained:
            items += [Item(BLANK), Item((Span("Explained by these:", "dim"),))]
            items += [
                Item(dimmed(headline(finding, columns, ascii_only)), _key(finding, number))
                for number, finding in enumerate(explained)
            ]
        items.append(Item(BLANK))
        if view.diagnosis is not None:
            items.append(Item((Span("why not another cause", "dim"),), _WHY_NOT))
            if view.diagnosis.episodes:
                items.append(Item((Span(f"history ({len(view.diagnosis.episodes)})", "dim"),), _HISTORY))
        if view.abstained:
            items.append(Item((Span(_not_judged(view), "dim"),), _ABSTAINED))
        # On a small terminal, the list takes only the rows it needs and leaves the rest to the text.
        if self.has_class("small"):
            shown.styles.height = min(len(items) + 1, _LIST_ROWS_SMALL)
        elif shown.styles.inline.has_rule("height"):  # clearing it lays out the screen again, even if it is not set
            shown.styles.height = None
        shown.set_items(items, subtitle=_count(view))

    def draw(self, view: View) -> None:
        """Draw the text and the GPUs involved."""
        pane = self.query_one("#finding", RuledPane)
        columns = max(20, pane.inner_size.width)
        chosen, key = self.chosen_finding(), self.query_one("#findings", ChoiceList).chosen
        if chosen is not None:
            title, lines = chosen.id, finding_text.finding_lines(chosen, view.snapshot, columns, view.settings.ascii)
        elif key == _WHY_NOT and view.diagnosis is not None:
            title, lines = "Why not another cause", why_not_lines(view.diagnosis.verdicts(), view.abstained, columns)
        elif key == _HISTORY and view.diagnosis is not None:
            title, lines = "History", history_lines(view.diagnosis.episodes, columns)
        elif key == _UNDECIDED:
            title, lines = "Undecided", tuple(undecided_items(view, columns))
        elif key == _ABSTAINED:
            title, lines = "Could say more with …", _abstained_lines(view, columns)
        else:
            title, lines = "Undecided" if view.undecided else "No problem found", _healthy_lines(view, columns)
        pane.set_content(lines, title=(Span(title, "title"),))
        if self._involved is not None:
            self.query_one("#involved", RuledPane).set_content(self._involved.lines, title=self._involved.title)

    def _find_involved(self, view: View) -> None:
        pane, chosen = self.query_one("#involved", RuledPane), self.chosen_finding()
        columns = max(20, self.query_one("#finding", RuledPane).inner_size.width)  # as wide, and always visible
        room = max(4, self.size.height * 2 // 5)
        drawn = draw_involved(chosen, view, columns, room - 2) if chosen is not None else None
        self._involved = drawn if drawn is not None and drawn.lines else None
        pane.display = self._involved is not None and not self.has_class("small")
        if self._involved is not None:
            pane.styles.height = len(self._involved.lines) + 1

    def chosen_finding(self) -> Finding | None:
        """Return the finding under the cursor, or None if the row is not a finding."""
        if self.view is None:
            return None
        chosen = self.query_one("#findings", ChoiceList).chosen
        groups = (self.view.findings, _explained(self.view))
        return next(
            (finding for group in groups for number, finding in enumerate(group) if _key(finding, number) == chosen), None
        )

    def on_choice_list_chosen(self, event: ChoiceList.Chosen) -> None:
        """Show the chosen finding from its top."""
        event.stop()
        self.query_one("#finding", RuledPane).first = 0
        self.settle()

    def on_choice_list_pressed(self, event: ChoiceList.Pressed) -> None:
        """Focus the text."""
        event.stop()
        self.action_read()

    def action_read(self) -> None:
        """Focus the text for scrolling."""
        self.focus_now(self.query_one("#finding", RuledPane))
        self.settle()

    def copyable(self) -> Copy | None:
        """Return the fix of the finding under the cursor."""
        return copying.of_finding(self.chosen_finding())

    def action_copy_all(self) -> None:
        """Copy the finding as plain text through the terminal (OSC 52)."""
        finding = self.chosen_finding()
        if finding is None:
            self.notify("There is no finding to copy.", timeout=4)
            return
        self.app.copy_to_clipboard(finding_text.plain_text(finding))
        self.app.notify("Copied, if your terminal allows it (OSC 52).", timeout=4)


def _key(finding: Finding, number: int) -> str:
    """Identify a finding over time: the same rule about the same run, or a group with the same first device, is the same."""
    about = finding.run or next(iter((*finding.devices, *map(str, finding.pids))), str(number))
    return f"{finding.id} {about}"


def _explained(view: View) -> tuple[Finding, ...]:
    return listed(view.diagnosis.suppressed, view.snapshot) if view.diagnosis is not None else ()


def _count(view: View) -> Line:
    problems = sum(finding.severity in ("error", "warning") for finding in view.findings)
    if not problems:
        return (Span("undecided", "text"),) if view.undecided else (Span("no problem", "ok"),)
    return (Span(f"{problems} problem" + ("s" if problems > 1 else ""), "bad"),)


def _healthy_lines(view: View, columns: int) -> tuple[Line, ...]:
    runs = len({run.run_id for run in view.snapshot.runs} - view.snapshot.untracked_ids) + len(view.snapshot.process_runs)
    lines: list[Line] = [
        *(undecided_items(view, columns) or wrapped("No problem found, as far as gputop can see from here.", columns, "ok")),
        BLANK,
        *wrapped(looked_at(view.snapshot), columns),
        BLANK,
        *wrapped(
            "The doctor looks at which GPUs work, which process and rank uses which GPU, memory, clocks, power and the "
            "loss. Most causes need some seconds of training before they show.",
            columns,
        ),
    ]
    if not runs:
        lines += [
            BLANK,
            heading("It knows more about a tracked run"),
            *wrapped("gputop run -- torchrun --nproc-per-node=2 train.py", columns, "accent", first="  ", rest="  "),
        ]
        if view.remote is None:
            lines += wrapped("or l here: launch a demo, or a faulty one to see what the doctor says about it.", columns)
    return tuple(lines)


def _not_judged(view: View) -> str:
    rules = {item.rule for item in view.abstained} - {EVIDENCE}
    if not rules:
        return "some evidence was lost"
    return f"{len(rules)} rule{'' if len(rules) == 1 else 's'} could not judge"


def _abstained_lines(view: View, columns: int) -> tuple[Line, ...]:
    lines: list[Line] = [*wrapped("These rules saw too little to judge. What each one needs:", columns), BLANK]
    for item in view.abstained:
        lines += wrapped(f"{item.rule}: {item.why}", columns, first="· ", rest="  ")
        lines += wrapped(f"needs: {item.needs}", columns, "dim", first="  ", rest="  ")
    return tuple(lines)
