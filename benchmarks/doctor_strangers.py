"""How often the doctor is right about programs and logs that its rules were not written against.

Run: ``python benchmarks/doctor_strangers.py [--logs] [--scenes] [--live] [--hardware] [--sets SET ...] [--every N] [--how HOW
...] [--only NAME ...] [--verdicts FILE] [--json FILE] [--page]``. Without --live it takes a minute: logs and simulated
machines. --live runs real programs on virtual GPUs, attached and under ``gputop run``, for up to two minutes each way, in a PID
namespace of its own where the machine makes one: gputop sees nothing else that runs there. --hardware runs the programs that
need a real GPU, on this machine's first one. ``--verdicts FILE`` keeps each program's verdict in a file, and does not run
programs whose verdicts it holds: so hours of programs are measured in parts. ``--page`` writes docs/doctor-accuracy.md from the
figures, and keeps those of parts that did not run. Cases that are set aside (the package ``set_aside`` says who may read them)
are counted but not named, unless their author requests it with ``--name-set-aside``: no rule may be written against them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from accuracy.cases import ANSWERS, FOLDERS, ROOT, Answer, Case, Half
from common.ending import ended_by_signals
from common.namespace import go_apart
from common.page import put

if TYPE_CHECKING:
    from accuracy.programs import Verdict

PAGE = Path(__file__).parent.parent / "docs" / "doctor-accuracy.md"
NUMBERS = ROOT / "numbers.json"
SECONDS = 120.0
HOWS = ("attached", "tracked")
Numbers = dict[str, dict[str, dict[str, float | None]]]
"""The counts, by set and by the way of looking."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case seen in one way. ``delay_s`` is the time from the onset to the right verdict, ``certain`` its confidence."""

    how: str
    case: Case
    answer: Answer
    delay_s: float | None = None
    said: tuple[str, ...] = ()
    certain: bool = False


def main() -> int:
    """Measure what was requested, print it, and return 1 for a wrong verdict or a false alarm."""
    args = _arguments()
    if args.live and not args.hardware:  # the driver names processes as they are outside
        go_apart()
    everything = not (args.logs or args.scenes or args.live or args.hardware)
    named: tuple[Half, ...] = ("first", "open", "set aside") if args.name_set_aside else ("first", "open")
    rows: list[Row] = []
    if args.logs or everything:
        rows += _logs(args.sets, args.only, args.every)
    if args.scenes or everything:
        rows += _scenes(args.sets, args.only)
    for gpu in (False,) * args.live + (True,) * args.hardware:
        rows += _live(args, named, gpu)
    numbers = _numbers(rows)
    print(table(numbers))
    for row in rows:
        if row.case.half in named and row.answer != "right":
            print(f"  {row.case.half}, {row.how}: {row.case.name} is {row.answer}: {', '.join(row.said) or 'nothing'}")
    if args.json:
        Path(args.json).write_text(json.dumps(numbers, indent=1))
    if args.page and not args.only:
        known = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
        merged: Numbers = {half: {**known.get(half, {}), **numbers.get(half, {})} for half in FOLDERS}
        NUMBERS.write_text(json.dumps(merged, indent=1) + "\n")
        put(PAGE, "benchmarks/doctor_strangers.py", table(merged))
    return 1 if any(row.answer in ("wrong", "false alarm") for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", action="store_true", help="logs alone")
    parser.add_argument("--scenes", action="store_true", help="only simulated machines")
    parser.add_argument("--live", action="store_true", help="also real programs")
    parser.add_argument("--hardware", action="store_true", help="also real programs for a real GPU, on this machine's GPUs")
    parser.add_argument("--sets", nargs="+", choices=tuple(FOLDERS), default=tuple(FOLDERS), help="these sets (default: all)")
    parser.add_argument("--name-set-aside", action="store_true", help="also name its cases: for their author")
    parser.add_argument("--how", nargs="+", choices=HOWS, default=HOWS, help="watch programs in these ways (default: both)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of the logs that are set aside, only each Nth")
    parser.add_argument("--only", nargs="*", default=(), metavar="NAME", help="these cases")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="watch each program for this long at most from its first line (120)"
    )
    parser.add_argument("--verdicts", metavar="FILE", help="keep the programs' verdicts in this file, and go on from it")
    parser.add_argument("--json", metavar="FILE", help="write the figures to this file")
    parser.add_argument("--page", action="store_true", help="write docs/doctor-accuracy.md")
    return parser.parse_args()


def _logs(sets: Sequence[Half], only: Sequence[str], every: int) -> list[Row]:
    from accuracy.cases import LOGS, judge

    from gputop.cli.doctor.logs import explain_logs

    parts: list[tuple[str, Sequence[Case]]] = [("from the log", LOGS)]
    for module in _second_set("LOGS"):
        kind = getattr(module, "KIND", "")
        parts.append((f"from the log, {kind}" if kind else "from the log", module.LOGS))
    rows = []
    for number, (how, case) in enumerate((how, case) for how, cases in parts for case in cases):
        if not _wanted(case, sets, only) or (case.half == "set aside" and number % every):
            continue
        found, _ = explain_logs([str(case.folder / "logs" / f"{case.name}.log")])
        rows.append(Row(how, case, judge(case, found), said=tuple(item.id for item in found)))
    return rows


def _second_set(attribute: str) -> list[ModuleType]:
    """Return the modules of the second set, both halves, that define ``attribute``: each module of its folders counts."""
    folders = (FOLDERS["open"], FOLDERS["set aside"])
    names = [f"{folder.name}.{path.stem}" for folder in folders for path in sorted(folder.glob("[!_]*.py"))]
    return [module for module in map(import_module, names) if hasattr(module, attribute)]


def _scenes(sets: Sequence[Half], only: Sequence[str]) -> list[Row]:
    from accuracy import scenes

    rows = []
    for half in (scenes, *_second_set("SCENES")):
        for case in half.CASES:
            if not _wanted(case, sets, only):
                continue
            for how, scene in scenes.both(half.SCENES[case.name], case.name in half.IN_THE_JOURNAL):
                answer, first_s, found = scenes.play(scene, case)
                said, certain = (
                    tuple(dict.fromkeys(item.id for item in found)),
                    bool(found) and found[0].confidence == "certain",
                )
                rows.append(Row(f"simulated, {how}", case, answer, None if first_s is None else float(first_s), said, certain))
    return rows


def _live(args: argparse.Namespace, named: Sequence[Half], gpu: bool) -> list[Row]:
    from accuracy.programs import ALL, watch

    rows = []
    place = "program on a GPU" if gpu else "program"
    known = _kept(Path(args.verdicts)) if args.verdicts else {}
    programs = (*ALL, *(program for module in _second_set("PROGRAMS") for program in module.PROGRAMS))
    for program in programs:
        if program.gpu != gpu or not _wanted(program.case, args.sets, args.only):
            continue
        for how in args.how:
            verdict = known.get((program.case.name, how)) or watch(program, how, args.seconds)
            if args.verdicts and (program.case.name, how) not in known:
                _keep(Path(args.verdicts), program.case.name, how, verdict)
            traceless = ", no outside trace" if how == "attached" and not program.case.outside_trace else ""
            rows.append(
                Row(f"{place}, {how}{traceless}", program.case, verdict.answer, verdict.delay_s, verdict.said, verdict.certain)
            )
            if program.case.half in named:
                print(
                    f"{program.case.name} {how}: {verdict.answer} {verdict.delay_s} {verdict.said}", file=sys.stderr, flush=True
                )
        rows.append(Row(f"{place}, from its log", program.case, verdict.from_log))
    return rows


def _kept(path: Path) -> dict[tuple[str, str], Verdict]:
    """Return the verdicts of a file by the names of program and way, the newest of each."""
    from accuracy.programs import Verdict

    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {
        (line["case"], line["how"]): Verdict(**{**line["verdict"], "said": tuple(line["verdict"]["said"])}) for line in lines
    }


def _keep(path: Path, case: str, how: str, verdict: Verdict) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"case": case, "how": how, "verdict": asdict(verdict)}) + "\n")


def _wanted(case: Case, sets: Sequence[Half], only: Sequence[str]) -> bool:
    return case.half in sets and (not only or case.name in only)


def _numbers(rows: Sequence[Row]) -> Numbers:
    """Return the counts of each answer for each set and each way of looking, and the median delay."""
    found: Numbers = {}
    for half in FOLDERS:
        for how in dict.fromkeys(row.how for row in rows if row.case.half == half):
            mine = [row for row in rows if row.how == how and row.case.half == half]
            counts = Counter(row.answer for row in mine)
            found.setdefault(half, {})[how] = {
                "cases": len(mine),
                "healthy": sum(not row.case.right for row in mine),
                **{answer: counts[answer] for answer in ANSWERS},
                "seconds": _median(mine),
                "certain_seconds": _median([row for row in mine if row.certain]),
            }
    return found


def _median(rows: Sequence[Row]) -> float | None:
    """Return the median seconds from the onset to the right verdict, ``None`` where no row has both."""
    delays = [
        row.delay_s for row in rows if row.delay_s is not None and row.answer in ("right", "acceptable") and row.case.right
    ]
    return round(statistics.median(delays), 1) if delays else None


def table(numbers: Numbers) -> str:
    """Return the tables of docs/doctor-accuracy.md."""
    lines = []
    for half, table in numbers.items():
        lines += [
            f"### {_HEADINGS[half]}",
            "",
            f"| seen | cases | healthy | {' | '.join(ANSWERS)} | faults named | median seconds | if certain |",
            f"|---|{'---:|' * (len(ANSWERS) + 5)}",
        ]
        counted = ("cases", "healthy", *ANSWERS)
        total: dict[str, float | None] = {name: sum(row[name] or 0 for row in table.values()) for name in counted}
        for how, row in (*table.items(), ("sum", total)):
            seconds = " | ".join(
                f"{row[name]:g}" if row.get(name) is not None else "-" for name in ("seconds", "certain_seconds")
            )
            counts = " | ".join(f"{row[name]:g}" for name in counted)
            lines.append(f"| {how} | {counts} | {_faults_named(row)} | {seconds} |")
        lines.append("")
    return "\n".join(lines)


def _faults_named(row: dict[str, float | None]) -> str:
    """Return the share of the faults whose first verdict is right or acceptable."""
    known = {name: value or 0 for name, value in row.items()}
    faults = known["cases"] - known["healthy"]
    named = known["right"] + known["acceptable"] - (known["healthy"] - known["false alarm"])
    return f"{named:g} of {faults:g}" if faults else "-"


_HEADINGS: dict[str, str] = {"first": "First set", "open": "Second set, open half", "set aside": "Second set, set aside"}

if __name__ == "__main__":
    with ended_by_signals():
        code = main()
    sys.stdout.flush()
    os._exit(code)
