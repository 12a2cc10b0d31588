"""Render the rules as text: the list and the pages of ``gputop doctor --rules``, and docs/rules.md. Pure.

The texts of logs, of which findings may also have the id, are in ``textbook``.

``python -m gputop.doctor.rulebook`` prints docs/rules.md (``make docs``).
"""

from __future__ import annotations

import difflib
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gputop.doctor import textbook
from gputop.doctor.findings import words
from gputop.doctor.logs.numbers.batches import EPOCHS_MIN as SAME_EPOCHS
from gputop.doctor.logs.numbers.batches import LABELS_MIN
from gputop.doctor.logs.numbers.cpu_quota import POSSIBLE as QUOTA
from gputop.doctor.logs.numbers.first_batches import EPOCHS_MIN, TIMES
from gputop.doctor.logs.numbers.gpus.first_collective import SPINS_PERCENT, WAITED_S
from gputop.doctor.logs.numbers.gpus.gpu_memories import TIMES as FIRST_TIMES
from gputop.doctor.logs.numbers.gpus.growing_memory import GROWN, VALUES_MIN
from gputop.doctor.logs.numbers.gpus.memory_lines import AVAILABLE_LEFT, AVAILABLE_VALUES, CURRENT_VALUES
from gputop.doctor.logs.numbers.gpus.polling import POWER_SHARE
from gputop.doctor.logs.numbers.gpus.profile_tables import LIKELY as PROFILED_LIKELY
from gputop.doctor.logs.numbers.gpus.profile_tables import POSSIBLE as PROFILED
from gputop.doctor.logs.numbers.gpus.second_contexts import EQUAL_MIN, EQUAL_MOST_MIB, SECOND_MOST_MIB
from gputop.doctor.logs.numbers.gpus.smi_rows import HOT_C, ROWS_MIN, SLOW_SHARE
from gputop.doctor.logs.numbers.gpus.stated_places import TAKEN_SHARE
from gputop.doctor.logs.numbers.gpus.utilization import HARDLY_PERCENT as HARDLY
from gputop.doctor.logs.numbers.gpus.utilization import LINES_MIN as UTILIZED_MIN
from gputop.doctor.logs.numbers.gpus.utilization import SHORT_S
from gputop.doctor.logs.numbers.growing_parts import GROWN as PART_GROWN
from gputop.doctor.logs.numbers.lightning_profiles import CHECKPOINT_SHARE as LIGHTNING_SAVES
from gputop.doctor.logs.numbers.lightning_profiles import POSSIBLE as LIGHTNING
from gputop.doctor.logs.numbers.lost.last_report import LOSSES_MIN
from gputop.doctor.logs.numbers.lost.loss_scale import AT_MOST, BELOW, FEWER_HALVINGS, HALVINGS_MIN
from gputop.doctor.logs.numbers.lost.nan_norms import REPORTS_MIN as NORMS_MIN
from gputop.doctor.logs.numbers.lost.skipped_batches import SHARE as SKIPPED_SHARE
from gputop.doctor.logs.numbers.lost.skipped_batches import SKIPPED_MIN
from gputop.doctor.logs.numbers.paces.evaluation_bars import SECONDS_MIN
from gputop.doctor.logs.numbers.paces.few_times import EACH, GROWTH, REPORTS_MAX
from gputop.doctor.logs.numbers.paces.few_times import REPORTS_MIN as TIMES_MIN
from gputop.doctor.logs.numbers.paces.stays_slow import MUCH_SLOWER, REPORTS_MIN, SAME, SLOWER
from gputop.doctor.logs.numbers.parts import LINES_MIN
from gputop.doctor.logs.numbers.pauses import EVALUATION_SHARE, LONGER, PAUSES_MIN, SHARE
from gputop.doctor.logs.numbers.ranks.one_is_late import DATA_SHARE, DATA_TIMES, WAIT_SHARE, WORK_SHARE, WORK_TIMES
from gputop.doctor.logs.numbers.ranks.same_samples import TURNS_MIN as SAME_TURNS
from gputop.doctor.logs.numbers.ranks.slowest_ranks import STALL_S, TABLES_MIN
from gputop.doctor.logs.numbers.ranks.slowest_ranks import TIMES as STALL_TIMES
from gputop.doctor.logs.numbers.ranks.unequal_bars import LEFT_TIMES, SPREAD, TOTALS_MIN
from gputop.doctor.logs.numbers.ranks.uneven_work import LONGER as LONGER_WORK
from gputop.doctor.logs.numbers.running_means import BATCHES_MIN, FEW_MIN, FEW_SHARE
from gputop.doctor.logs.numbers.stands_still import SPAN_S
from gputop.doctor.logs.numbers.stated import LINES_MIN as STATED_MIN
from gputop.doctor.logs.numbers.step_parts import SHARES
from gputop.doctor.rules import BY_ID, HIDES, IDS, RULES
from gputop.doctor.rules.support.rule import EVERYTHING, Case, Rule, needs_tracking

WIDTH = 80
"""Characters of a line: these pages are read in a terminal of the usual width."""
PAGE = "docs/rules.md"
_PAGE_WIDTH = 120
_INDENTED: Mapping[str, Any] = {"initial_indent": "     ", "subsequent_indent": "     ", "break_on_hyphens": False}
_WORD_MIN = 3
_CHAPTERS = {
    "A": "Launching: the number of ranks, their devices, and the devices they see",
    "B": "nn.DataParallel",
    "C": "DistributedDataParallel, and what each rank reads and writes",
    "D": "Input pipeline and CPU",
    "E": "Efficiency of one GPU, and of several GPUs together",
    "F": "Stragglers: one rank that all others wait for",
    "G": "Hangs and lost ranks",
    "H": "Memory",
    "I": "Hardware and driver",
    "J": "Learning: the loss and the learning rate",
    "K": "Runs on several hosts",
    "L": "Known error texts",
}
_WHEN = "Reported when"
_LOGS = f"""\
**Logs.** `gputop doctor --log FILE` also finds the following in plain text, without logged metrics. Words for losses, steps,
times and the like may be in another language. Comparisons of ranks are skipped if a log mentions parts of one model, local SGD,
sweeps, actors or separate runs.
- Ranks, numbered from 0, are compared if they print their own lines ("[rank 2] step 100 data 1.0s fwd 0.1s"), share a line,
  have a row each in a table, or write files that follow each other (`tail`): by their batches and samples ([C05](#c05),
  [C07](#c07)), their losses ([C11](#c11)), and the parts of their steps. One rank or host is late if a part takes
  {WORK_TIMES:g} times as long there as on the others, the excess is {WORK_SHARE:.0%} of its step, and the others wait for
  {WAIT_SHARE:.0%} of the excess; a wait for data must take {DATA_TIMES:g} times as long, and {DATA_SHARE:.0%} of the step
  ([F01](#f01), [F02](#f02), [F05](#f05), [K01](#k01)). Work is uneven if a different rank is last in each step and takes
  {LONGER_WORK:g} times the mean, or if the rank with the most tokens is last ([F03](#f03)). Also compared: tables with a column
  for each rank ([C11](#c11), [F02](#f02)), and the GPU that each rank says it uses ([A07](#a07)).
- {TABLES_MIN} or more tables of a step's slowest ranks, some of which wait {STALL_S:.0f} s or more for data, {STALL_TIMES:g}
  times as long as the rest, while the others wait for them (possible if they are others each time, [F01](#f01)).
- {TOTALS_MIN} or more progress bars with different totals, {SPREAD:.0%} apart at most, stop at the same count, short of their
  ends by at most {LEFT_TIMES} times the difference of the totals ([C07](#c07)).
- {LINES_MIN} or more reports of the parts of a step, in a log with losses or scores: data takes
  {SHARES["data"][0]:.0%} ([D01](#d01)), communication {SHARES["communication"][0]:.0%} ([E06](#e06)), checkpoints
  {SHARES["saving"][0]:.0%}, logging {SHARES["logging"][0]:.0%},
  evaluation {SHARES["evaluation"][0]:.0%} ([E07](#e07)); likely from more. The first batch of an epoch does not count,
  and the share must hold without the first report of the run and of each epoch, too. Fewer are enough if each is the mean of
  many steps, as those of Megatron and Paddle are.
- Means of all batches so far, in brackets behind the time of one: the same share of data in what {BATCHES_MIN} or more batches
  after the first report of an epoch add to them. The first {FEW_MIN} reports of MMEngine: {FEW_SHARE:.0%} (possible)
  ([D01](#d01)).
- Progress bars of evaluations that take longer than those of the training, {SECONDS_MIN:.0f} s or more; possible with one of
  each ([E07](#e07)).
- A rate that is {SLOWER:g} times as high in the first third of {REPORTS_MIN} or more reports as in the last, {SAME:.0%} around
  its median in both, and falls once within an epoch, where no line and no other number shows a change (likely from
  {MUCH_SLOWER:g} times); or {TIMES_MIN} to {REPORTS_MAX} reports with times, between which a step takes {EACH:g} times as
  long as between those before, and {GROWTH:g} times in all (possible) ([E10](#e10)).
- By the times of the lines: {PAUSES_MIN} or more pauses, {LONGER:g} times as long as usual, that take {SHARE:.0%} of the time
  (evaluations {EVALUATION_SHARE:.0%}): before the first batch of an epoch ([D06](#d06)), or for evaluations, for checkpoints,
  between epochs or at regular intervals ([E07](#e07)). If no pace is printed, it is computed from these times ([E10](#e10)).
- The first batch of {EPOCHS_MIN} or more epochs takes {TIMES:g} times as long as others, or the loop waits that long for it;
  progress bars show this too ([D06](#d06)).
- A part of each iteration that grows in each quarter of the log, to {PART_GROWN:g} times as long in the last as in the first,
  while other parts do not ([E10](#e10)).
- Memory that grows in each quarter of {VALUES_MIN} or more values, {GROWN:g} times in all ([H06](#h06)). If lines of their own
  between the steps print it: {CURRENT_VALUES} or more values that grow evenly, or {AVAILABLE_VALUES} or more of available
  memory that shrinks to {AVAILABLE_LEFT:.0%} (possible).
- A number of the training that becomes NaN and stays so to the end, unless another one in its line does not; gradient norms
  that are NaN in the last {NORMS_MIN} or more reports, unless a loss scale above 1 is printed (only possible if losses are
  finite and no scale is printed); a last report with {LOSSES_MIN} or more losses, none of them finite; {SKIPPED_MIN} or more
  batches skipped for a loss that is not finite, {SKIPPED_SHARE:.0%} of those in between; {HALVINGS_MIN} halvings of the loss
  scale in a row to below {BELOW:g}, or {FEWER_HALVINGS} to {AT_MOST:g} or less ([J01](#j01)).
- Heartbeats and monitors of a training that report, to the end of the log and for {SPAN_S:.0f} s or more, that nothing moves or
  that the step stays the same ([G01](#g01)), or that ranks have not joined ([G03](#g03)).
- {STATED_MIN} or more lines of a training that say its model is not in training mode, or Lightning's summary, if nearly all
  modules are in evaluation mode and none is frozen ([J07](#j07)); lines that say its sampler's epoch stays 0 ([C06](#c06)).
- One process that says it is the only one, where several GPUs are listed, or a table with one busy GPU ([A01](#a01)); several
  tasks that each say so ([A18](#a18)).
- Tables of nvidia-smi and gpustat: GPUs that are idle while all ranks use others ([A02](#a02); [A03](#a03) if a mask hides
  them), ranks on one GPU ([A07](#a07)), one GPU that works where the run asks for several (possible, [A02](#a02)), a process
  that has come to the run's GPU ([H03](#h03)), processes that also hold up to {SECOND_MOST_MIB} MiB on another one's GPU, or
  {EQUAL_MOST_MIB} MiB if {EQUAL_MIN} hold the same ([H01](#h01)); all GPUs at {SPINS_PERCENT}%, {WAITED_S:.0f} s or more
  after NCCL was ready and before any step ([G02](#g02)); in a log without steps,
  several GPUs at {SPINS_PERCENT}% and {POWER_SHARE:.0%} of their power or less, or all but one that is idle and holds as much
  (possible, [G01](#g01)).
- {LABELS_MIN} or more batches, each with printed labels of a single class, which changes now and then ([J04](#j04));
  {SAME_EPOCHS} or more epochs that begin with the same samples on each rank ([C06](#c06)).
- Ids of samples that are the same on each rank, at {SAME_TURNS} or more steps or in a list ([C05](#c05)).
- Checksums or norms of the weights that never agree between ranks once they have differed, unless a line mentions shards
  ([C03](#c03)).
- A table of torch.profiler in which reading values from the GPU ([E01](#e01)), kernel launches ([E02](#e02)), the loader
  ([D01](#d01)), copies to the GPU ([D05](#d05)), NCCL ([E06](#e06)) or float32 kernels ([E03](#e03)) take {PROFILED:.0%} or
  more; likely from {PROFILED_LIKELY:.0%}. A report of Lightning's profiler in which the loader takes {LIGHTNING:.0%} of the
  epochs ([D01](#d01)), or checkpoints take {LIGHTNING_SAVES:.0%} ([E07](#e07)).
- {UTILIZED_MIN} or more lines in which a GPU is at most {HARDLY:.0f}% busy, in steps of {SHORT_S * 1000:.0f} ms or less that
  hardly wait for data ([E02](#e02)).
- Counters of a container whose quota stops it in {QUOTA:.0%} of its periods ([D02](#d02)).
- Lists of cores that `taskset` prints, if several processes share one or two cores ([D03](#d03)); reports of Megatron's
  straggler detector ([F02](#f02), [I01](#i01)); ranks that Lightning says have joined, if one never does ([G03](#g03)).
- {ROWS_MIN} or more rows of `nvidia-smi --query-gpu` that report thermal slowdown of a GPU, or one row if its clock is below
  {SLOW_SHARE:.0%} of the others' ([I01](#i01)). If no reason is reported, such a clock at {HOT_C:.0f} °C or more counts if the
  others are cooler. Also a link with fewer lanes than the others' have ([I03](#i03)).
- Shares of each step that {LINES_MIN} or more lines print as percentages, with the same limits as the parts of a step
  ([D01](#d01), [E06](#e06)).
- Dumps of py-spy that show ranks in different collective operations ([C08](#c08)), or some outside the one in which the others
  wait (possible, [G01](#g01)).
- A device reported as the CPU in a training whose log shows GPUs ([A12](#a12)); a GPU whose memory stays empty ([A13](#a13)).
- The first GPU of nn.DataParallel holds {FIRST_TIMES:g} times as much memory as the others ([B07](#b07)).
- Only possible: a printed map that spreads layers over several GPUs ([A10](#a10)), ranks of Lightning that each see more GPUs
  than there are ranks ([A02](#a02)), {TAKEN_SHARE:.0%} less free memory on one GPU than on the others at the start
  ([H03](#h03)).

These limits are our choice."""
_HEAD = """\
# Rules of the doctor

<!-- Written by `make docs` from gputop/doctor/rules: change the rules, not this page. -->

Each rule names one reason why training uses too few GPUs, runs slowly, goes wrong, or hangs. `gputop doctor --rules` lists them
in the terminal, and `gputop doctor --rules A07` explains one. [What logs say](#texts) is explained in the
same way: `gputop doctor --rules module_missing`.

**Severity.** *error*: the run fails, or its result or most of its speed is lost. *warning*: it costs speed. *info*: worth
knowing, and often intended.

<a id="confidence"></a>
**Confidence.** *certain* (from 0.95): a fact, or several sources that agree. *likely* (from 0.7): reported after three
observations. *possible* (from 0.4): one statistical sign; always listed last. A finding disappears after five clean
observations.

<a id="hides"></a>
**Hides.** A finding can explain others of the same run or device. Those are listed under it, not next to it. If two rules
explain each other, only the root is shown. If two findings have the same weight, the root comes first.

<a id="needs"></a>
**Needs.** *journal*: what `gputop run` or `import gputop` records in the training; gputop reads everything else from outside. A
rule that lacks its evidence says so and does not judge. *The run's output*: gputop follows it for jobs that it started, and for
other runs where it goes to a file or to a pane of tmux or screen; `gputop doctor --log FILE` reads any other.

<a id="logs"></a>
{logs}

<a id="untracked"></a>
**Without tracking.** If gputop did not start a run, it has no journal. It still sees the processes, their environment at
launch, the GPUs, and the metrics in the run's files and output. Once a second it sees what each main thread waits for
(`/proc/PID/syscall`, where the kernel shows it); rules count many such samples, and nothing is stopped or traced. Each rule
says what it then lacks. That evidence may be necessary for a firm finding, or only for one of several signs.

<a id="measures"></a>
**Measures.** A GPU is busy from 10% average utilization, and idle when 95% of its readings are below 3%; utilization counts
after 30 s or 20 steps, when libraries and compilers have started. The share of time spent waiting is the sum of the waits
divided by the sum of the step times, never a median: with four loader workers, the median wait was 1.3 ms in a case where the
mean was 80 ms. In DDP, every rank's step takes equally long, so the late rank is the one with the *shortest* backward pass. The
straggler score is the others' wait divided by the step time: 50 ms of data on rank 1 gave rank 0 a backward pass of 60.7 ms and
rank 1 one of 10.5 ms. NCCL's counts of collectives may differ between ranks during a run; they are conclusive once they no
longer change.

<a id="estimates"></a>
**Estimates.** Limits marked as estimates have not been measured on a GPU.
"""


def listing() -> str:
    """Return every rule by id, with its title, its family and the evidence it needs, then every text of logs by its program.

    Its lines have at most 80 characters.
    """
    lines = []
    for rule in _by_id():
        lines += [_headline(rule), *textwrap.wrap(_needs(rule), WIDTH, **_INDENTED)]
    counts = f"{words.count(len(RULES), 'rule')}, {words.count(len(textbook.TEXTS), 'text')} of logs"
    lines += ["", "Texts of logs, by the program that prints them:", textbook.listing()]
    lines += ["", f"{counts}. gputop doctor --rules ID explains one."]
    return "\n".join(lines)


def mentions(word: str) -> str | None:
    """Return the rules and the texts of logs in whose titles or causes the word occurs, in any case; None if there are none.

    One or two letters are no word.
    """
    wanted = word.strip().lower()
    if len(wanted) < _WORD_MIN:
        return None
    rules = [rule for rule in _by_id() if wanted in f"{rule.title}\n{rule.mechanism}\n{rule.signature}".lower()]
    texts = textbook.mentions(wanted)
    if not rules and not texts:
        return None
    lines = [line for rule in rules for line in (_headline(rule), *textwrap.wrap(rule.mechanism, WIDTH, **_INDENTED))]
    lines += [texts] if texts else []
    return "\n".join([*lines, "", "gputop doctor --rules ID explains one."])


def page_of(name: str) -> str | None:
    """Return the full page of the rule or the text with this id, in any case and with or without leading zeros; None if
    there is none."""
    whole = re.sub(r"^([A-Z])0*(\d+)$", lambda found: f"{found[1]}{found[2]:0>2}", name.strip().upper())
    rule, text = BY_ID.get(whole), textbook.TEXTS.get(name.strip().lower())
    if rule is not None:
        return explanation(rule)
    return textbook.explanation(text) if text is not None else None


def explanation(rule: Rule) -> str:
    """Return the full page of one rule, in lines of at most 80 characters."""
    blocks = [f"{rule.id}  {rule.title}\n{'-' * (len(rule.id) + 2 + len(rule.title))}\n{_levels(rule)}"]
    for name, text in _paragraphs(rule):
        if isinstance(text, str):
            blocks.append(f"{name}\n{_filled(text, WIDTH, '  ', '  ')}")
            continue
        lines = [name]
        for case in text:
            lines += [_filled(f"{case.name}:", WIDTH, "  ", "  ")] if case.name else []
            indent = "    " if case.name else "  "
            lines += [_filled(condition, WIDTH, f"{indent}- ", f"{indent}  ") for condition in case.conditions]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def near_ids(text: str) -> tuple[str, ...]:
    """Suggest ids for one that does not exist: texts with a similar id, or else the rules that begin with the same letter."""
    near = difflib.get_close_matches(text.strip().lower(), textbook.TEXTS, n=5)
    start = text.strip().upper()[:1]
    return tuple(near) or tuple(sorted(rule for rule in IDS if start and rule.startswith(start)))


def markdown() -> str:
    """Return the text of docs/rules.md."""
    parts = [_HEAD.replace("{logs}", _LOGS)]
    chapter = ""
    for rule in _by_id():
        if rule.id[0] != chapter:
            chapter = rule.id[0]
            parts.append(f"## {_CHAPTERS[chapter]}\n")
        parts.append(f'<a id="{rule.id.lower()}"></a>\n### {rule.id} {rule.title}\n\n{_levels(rule)}\n')
        items = []
        for name, text in _paragraphs(rule):
            if isinstance(text, str):
                items.append(_filled(f"**{name}{'' if name == _WHEN else '.'}** {text}", _PAGE_WIDTH, "- ", "  "))
                continue
            items.append(f"- **{name}**")
            for case in text:
                items += [_filled(f"{case.name}:", _PAGE_WIDTH, "  - ", "    ")] if case.name else []
                indent = "    " if case.name else "  "
                items += [_filled(condition, _PAGE_WIDTH, f"{indent}- ", f"{indent}  ") for condition in case.conditions]
        parts.append("\n".join(items) + "\n")
    return "\n".join([*parts, textbook.markdown()])


def _headline(rule: Rule) -> str:
    return f"{rule.id:<5}{rule.title}  [{rule.family}]"


def _filled(text: str, width: int, first: str, rest: str) -> str:
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


def _by_id() -> list[Rule]:
    return sorted(RULES, key=lambda rule: (not rule.id[1:].isdigit(), rule.id))


def _levels(rule: Rule) -> str:
    return f"{_either(rule.severities)}; {_either(rule.confidences)}; family {rule.family}"


def _either(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _paragraphs(rule: Rule) -> Iterable[tuple[str, str | tuple[Case, ...]]]:
    """Yield each paragraph's name and its text, or the cases that it lists."""
    yield "Why it happens", rule.mechanism
    yield "How it shows", rule.signature
    cases = _punctuated(rule)
    yield _WHEN, cases if len(rule.conditions) > 1 else cases[0].conditions[0]
    yield "Looks like", rule.look_alike
    yield "Fix", rule.fix
    yield "Needs", f"{_needs(rule)}."
    yield "Without tracking", _without_tracking(rule)
    if rule.id in textbook.IDS_OF_RULE:
        yield "Known texts", f"{', '.join(textbook.IDS_OF_RULE[rule.id])}."
    hides = _hides(rule)
    if hides:
        yield "Hides", hides
    hidden_by = sorted(root for root, symptoms in HIDES.items() if rule.id in symptoms and BY_ID[root].hides != EVERYTHING)
    everything = [item.id for item in RULES if item.hides == EVERYTHING and rule.id in HIDES[item.id]]
    if hidden_by or everything:
        yield "Hidden by", f"{', '.join([*everything, *hidden_by])}."


def _punctuated(rule: Rule) -> tuple[Case, ...]:
    """Return the rule's cases with the marks that end each condition."""
    cases = [
        replace(case, conditions=(*(f"{part};" for part in case.conditions[:-1]), f"{case.conditions[-1]}."))
        for case in rule.cases
    ]
    if rule.estimated:
        *others, last = cases[-1].conditions
        cases[-1] = replace(cases[-1], conditions=(*others, f"{last} These limits are estimates."))
    return tuple(cases)


def _needs(rule: Rule) -> str:
    return "; ".join(rule.needs) + (f"; observed for about {rule.window_s:g} s" if rule.window_s else "")


_OR_EXCEPTION = " or exception"


def _without_tracking(rule: Rule) -> str:
    """Return what the rule can know about a run that gputop does not track."""
    missing = [need for need in rule.needs if needs_tracking(need)]
    if len(missing) == len(rule.needs):
        return "Not judged."
    if any(need.endswith(_OR_EXCEPTION) for need in rule.needs):
        missing.append("journal: the exception")
    if not missing:
        return "Nothing is missing."
    known = "; ".join(need.removesuffix(_OR_EXCEPTION) for need in rule.needs if not needs_tracking(need))
    return f"Known: {known}. Missing: {'; '.join(missing)}."


def _hides(rule: Rule) -> str:
    if not rule.hides:
        return ""
    what = "every other rule except those that hide it" if rule.hides == EVERYTHING else ", ".join(sorted(rule.hides))
    when = f", if {rule.hides_when}" if rule.hides_when else ""
    in_logs = f"; in a log also {', '.join(sorted(rule.hides_in_logs))}" if rule.hides_in_logs else ""
    return f"{what[:1].upper()}{what[1:]}{when}{in_logs}."


if __name__ == "__main__":
    sys.stdout.write(markdown())
