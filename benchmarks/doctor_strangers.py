"""How often the doctor is right about programs and logs that its rules were not written against.

Run: ``python benchmarks/doctor_strangers.py [--logs] [--scenes] [--live] [--only NAME ...] [--json FILE] [--page]``. Without
--live it takes a minute: logs, and simulated machines. --live runs real programs on virtual GPUs, attached and under ``gputop
run``, a quarter of an hour on two quiet cores; where others train on the machine, run it among processes of its own, as
doctor_accuracy.py says. ``--page`` writes docs/doctor-accuracy.md from the numbers, and keeps those of parts that did not run.
Cases that are set aside (the package ``set_aside`` says who may read them) are counted and not named: no rule may be written
against them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from _strangers import ANSWERS, ROOT, Answer, Case

PAGE = Path(__file__).parent.parent / "docs" / "doctor-accuracy.md"
NUMBERS = ROOT / "numbers.json"
SECONDS = 75.0


@dataclass(frozen=True, slots=True)
class Row:
    """One case, seen in one way. ``delay_s`` is the time from the onset to the right verdict."""

    how: str
    case: Case
    answer: Answer
    delay_s: float | None = None
    said: tuple[str, ...] = ()


def main() -> int:
    """Measure what is asked for, print it, and return 1 for a wrong verdict or a false alarm."""
    args = _arguments()
    everything = not (args.logs or args.scenes or args.live)
    rows: list[Row] = []
    if args.logs or everything:
        rows += _logs(args.only)
    if args.scenes or everything:
        rows += _scenes(args.only)
    if args.live:
        rows += _live(args.only, args.seconds)
    numbers = _numbers(rows)
    print(_table(numbers))
    for row in rows:
        if row.case.half == "open" and row.answer != "right":
            print(f"  open, {row.how}: {row.case.name} is {row.answer}: {', '.join(row.said) or 'nothing'}")
    if args.json:
        Path(args.json).write_text(json.dumps(numbers, indent=1))
    if args.page and not args.only:
        known = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
        merged = {half: {**known.get(half, {}), **numbers[half]} for half in numbers}
        NUMBERS.write_text(json.dumps(merged, indent=1) + "\n")
        PAGE.write_text(page(merged))
    return 1 if any(row.answer in ("wrong", "false alarm") for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", action="store_true", help="logs alone")
    parser.add_argument("--scenes", action="store_true", help="simulated machines alone")
    parser.add_argument("--live", action="store_true", help="real programs, too")
    parser.add_argument("--only", nargs="*", default=(), metavar="NAME", help="these cases")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="watch each program for at most this long (default: 75)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    parser.add_argument("--page", action="store_true", help="write docs/doctor-accuracy.md")
    return parser.parse_args()


def _logs(only: Sequence[str]) -> list[Row]:
    from _strangers import LOGS, judge
    from set_aside import cases

    from gputop.cli.doctor import explain_logs

    rows = []
    for case in (*LOGS, *cases.LOGS):
        if only and case.name not in only:
            continue
        found, _ = explain_logs([str(case.folder / "logs" / f"{case.name}.log")])
        rows.append(Row("from the log", case, judge(case, found), said=tuple(item.id for item in found)))
    return rows


def _scenes(only: Sequence[str]) -> list[Row]:
    import _stranger_scenes
    from set_aside import scenes

    rows = []
    for half in (_stranger_scenes, scenes):
        for case in half.CASES:
            if only and case.name not in only:
                continue
            for how, scene in _stranger_scenes.both(half.SCENES[case.name], case.name in half.IN_THE_JOURNAL):
                answer, first_s = _stranger_scenes.play(scene, case)
                rows.append(Row(f"simulated, {how}", case, answer, None if first_s is None else float(first_s)))
    return rows


def _live(only: Sequence[str], seconds: float) -> list[Row]:
    from _stranger_programs import ALL, How, watch
    from set_aside import cases

    rows = []
    hows: tuple[How, ...] = ("attached", "tracked")
    for program in (*ALL, *cases.PROGRAMS):
        if only and program.case.name not in only:
            continue
        for how in hows:
            told = watch(program, how, seconds)
            rows.append(Row(f"program, {how}", program.case, told.answer, told.delay_s, told.said))
            if program.case.half == "open":
                print(f"{program.case.name} {how}: {told.answer} {told.delay_s} {told.said}", file=sys.stderr, flush=True)
        rows.append(Row("program, from its log", program.case, told.from_log))
    return rows


def _numbers(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return the counts of each answer for both halves and each way of looking, and the median delay."""
    found: dict[str, dict[str, dict[str, float | None]]] = {"open": {}, "set aside": {}}
    for half, table in found.items():
        for how in dict.fromkeys(row.how for row in rows):
            mine = [row for row in rows if row.how == how and row.case.half == half]
            counts = Counter(row.answer for row in mine)
            delays = [row.delay_s for row in mine if row.delay_s is not None and row.answer in ("right", "acceptable")]
            table[how] = {
                "cases": len(mine),
                "healthy": sum(not row.case.right for row in mine),
                **{answer: counts[answer] for answer in ANSWERS},
                "seconds": round(statistics.median(delays), 1) if delays else None,
            }
    return found


def _table(numbers: dict[str, dict[str, dict[str, float | None]]]) -> str:
    lines = []
    for half, table in numbers.items():
        lines += [
            f"### {half.capitalize()}",
            "",
            f"| seen | cases | healthy | {' | '.join(ANSWERS)} | median seconds |",
            f"|---|{'---:|' * (len(ANSWERS) + 3)}",
        ]
        for how, row in table.items():
            seconds = "-" if row["seconds"] is None else f"{row['seconds']:g}"
            counts = " | ".join(f"{row[name]:g}" for name in ("cases", "healthy", *ANSWERS))
            lines.append(f"| {how} | {counts} | {seconds} |")
        lines.append("")
    return "\n".join(lines)


def page(numbers: dict[str, dict[str, dict[str, float | None]]]) -> str:
    """Return the text of docs/doctor-accuracy.md."""
    return f"{_HEAD}\n{_table(numbers)}"


_HEAD = """\
# How accurate the doctor is

<!-- Written by `python benchmarks/doctor_strangers.py --page`: change the script, not this page. -->

Rules that are tested on their author's own examples look better than they are. So the doctor is measured on programs, logs
and simulated machines in the style of other people's repositories and forum posts, in two halves. Rules may be written
against the *open* half (`benchmarks/strangers`). The other half (`benchmarks/set_aside`) has an author of its own, who has not
read the rules; it is *set aside*, only measured, and not looked into by those who write rules.

- **right**: the first finding is the cause, or a healthy case raised no alarm.
- **acceptable**: it is true and says less: the exception without its reason, the rank that died without why.
- **silent**: nothing was found. **undecided**: there is only a possible finding, or one that needs more time.
- **wrong**: the first finding names another cause. **false alarm**: a healthy case has a problem above "possible".
- **median seconds**: from the onset of the fault, as far as it is known, to the right verdict. A simulated fault begins with
  the first reading.

*Attached* means that gputop looks from outside at a run that it did not start; *tracked* means `gputop run`; *from the log*
means `gputop doctor --log`. Programs run on virtual GPUs, that is, on the cores of one machine.
"""


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
