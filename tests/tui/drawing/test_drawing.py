"""The pure drawing functions: their text, for values worked out by hand."""

from __future__ import annotations

import itertools
import math
import re
import sys
from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Abstained, Finding
from gputop.filters.processes import parse
from gputop.history.columns import LiveColumns, steady_end
from gputop.history.history import History
from gputop.history.series import Series
from gputop.process import Ancestor
from gputop.snapshot import DeviceUse, Process
from gputop.tui.drawing.bars import segments
from gputop.tui.drawing.braille import Trace, chart, dot_columns
from gputop.tui.drawing.doctor.pane import draw_doctor, headline
from gputop.tui.drawing.header import header_line
from gputop.tui.drawing.line import (
    Line,
    ascii_line,
    clean,
    clip,
    fit,
    line,
    plain,
    spread,
    width,
    wrap,
)
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.processes.pane import draw_processes, scrolls_most
from gputop.tui.drawing.processes.rows import Order, process_rows
from gputop.tui.drawing.table import Column, column_at, fitting
from gputop.tui.drawing.training import draw_training, loss_name
from gputop.tui.state.memory_split import memory_splits
from gputop.tui.state.own_cost import Cost
from gputop.tui.state.view import View
from tests import samples
from tests.tui import dashboards


def texts(lines: tuple[Line, ...]) -> list[str]:
    return [plain(part) for part in lines]


# Lines


def test_clip_ends_in_an_ellipsis_and_counts_wide_characters() -> None:
    assert plain(clip(line("abcdef"), 4)) == "abc…"
    assert plain(clip(line("日本語"), 4)) == "日 …"
    assert width(clip(line("日本語"), 4)) == 4
    assert plain(clip(line("abc"), 3)) == "abc"
    assert clip(line("abc"), 0) == ()


def test_spread_keeps_the_right_part() -> None:
    assert plain(spread(line("a long title"), line("likely"), 14)) == "a lon…  likely"
    assert plain(fit(line("ab"), 4)) == "ab  "


def test_clean_takes_the_power_from_control_characters() -> None:
    assert clean("a\x1b[31mb\nc\u202ed") == "a?[31mb?c?d"
    assert clean("größe 日本") == "größe 日本"


def test_clean_returns_a_text_as_it_is_if_nothing_is_wrong_with_it() -> None:
    """Without a look at each character: a bar of tqdm has a hundred of them in each line of a log."""
    for text in ("step 3 loss 0.5", " 45%|████▌     | 45/100 [00:10<00:12,  4.50it/s]", "größe · ━━━╸ 3 °C"):
        assert clean(text) is text


def test_ascii_line_keeps_the_width() -> None:
    shown = ascii_line(line("│ 65°C · ±2 … 日"))
    assert plain(shown) == "| 65 C - ~2 ~ ??"
    assert plain(shown).isascii()


def test_wrap_indents_what_follows() -> None:
    assert texts(tuple(wrap("fix: set the device first", 12, indent="  "))) == ["fix: set the", "  device", "  first"]


# Bars


def test_a_thin_bar_is_divided_and_hides_no_part() -> None:
    assert plain(segments(((0.5, "bar"),), 4)) == "━━──"
    assert plain(segments(((0.01, "bar"), (0.01, "other")), 4)) == "━━──"
    assert plain(segments(((0.0, "bar"),), 4)) == "────"
    assert plain(segments(((7.0, "bar"),), 4)) == "━━━━"
    assert plain(segments(((0.5, "bar"),), 4, ascii_only=True)) == "##.."


# Charts


def test_chart_draws_a_line_from_corner_to_corner() -> None:
    count = dot_columns(17)
    assert count == 20
    drawn = texts(chart([Trace([float(step) for step in range(count)])], 17, 5))
    assert [row[:7] for row in drawn] == ["    20┤", "      │", "      │", "      │", "     0┤"]
    assert drawn[-1][7] == "⡠"
    assert drawn[0][16] == "⠔"
    assert [len(row[7:].strip()) for row in drawn] == [2, 3, 3, 2, 2]


def test_chart_marks_nan_and_leaves_a_gap() -> None:
    values: list[float | None] = [1.0] * 10 + [math.nan] * 2 + [1.0] * 8
    drawn = chart([Trace(values)], 17, 3)
    assert plain(drawn[0])[7 + 5] == "×"
    assert any(span.style == "bad" and "×" in span.text for span in drawn[0])
    assert [row[7 + 5] for row in texts(drawn)[1:]] == [" ", " "]


def test_chart_joins_points_over_columns_without_any() -> None:
    values: list[float | None] = [None] * 20
    values[0] = values[19] = 1.0
    assert "⠉" * 10 in plain(chart([Trace(values)], 17, 3)[1]).replace("⠒", "⠉").replace("⠤", "⠉").replace("⣀", "⠉")


def test_log_axis_leaves_out_what_is_not_positive() -> None:
    drawn = texts(chart([Trace([-1.0, 0.0, 0.001, 10.0])], 20, 4, log=True))
    assert drawn[0].startswith("    10┤")
    assert drawn[-1].startswith(" 0.001┤")
    assert plain(chart([Trace([-1.0, -2.0])], 20, 4, log=True)[0]).startswith("    -1┤")


def test_chart_of_huge_and_of_equal_values() -> None:
    for values in ([1e308, -1e308], [5.0, 5.0], [0.0], [1e-320, 2e-320]):
        assert len(chart([Trace(values)], 30, 6)) == 6


def test_ascii_chart_is_ascii() -> None:
    drawn = texts(chart([Trace([1.0, 2.0, math.nan, 3.0], "rank0", [0.5] * 4, [3.5] * 4)], 20, 5, ascii_only=True))
    assert all(row.isascii() for row in drawn)
    assert "*" in "".join(drawn)
    assert "x" in drawn[0]


@pytest.mark.parametrize("samples_count", [3, 100, 4096, 9000])
def test_live_columns_equal_those_of_the_series(samples_count: int) -> None:
    series, live = Series(), LiveColumns()
    for step in range(samples_count):
        series.append(step, math.nan if step % 17 == 5 else float(step % 13))
        if step % 97 == 0 or step > samples_count - 3:
            got = live.columns("loss", series, 0.0, 10_000.0, 50)
    assert got == series.columns(0.0, 10_000.0, 50)


def test_the_steady_end_moves_rarely() -> None:
    ends = {steady_end(0.0, float(last)) for last in range(1000)}
    assert len(ends) < 30
    assert all(steady_end(5.0, 5.0 + last) >= 5.0 + last for last in range(1000))


# Training


def test_training_title_and_numbers() -> None:
    drawing = draw_training(dashboards.healthy(), LossChart(), 76, 20)
    assert plain(drawing.title) == "Training: resnet18-ddp · 4 ranks · step 1 240/5 000 · 1h02m left"
    numbers = plain(drawing.lines[0])
    assert numbers.startswith("loss 0.446 ±0.015  1 840 samples/s  1 steps/s")
    assert len(drawing.lines) == 20
    assert any("\u2800" < char <= "\u28ff" for part in drawing.lines for char in plain(part))


def test_the_numbers_of_a_training_are_whole_or_left_out() -> None:
    every = plain(draw_training(dashboards.healthy(), LossChart(), 200, 20).lines[0]) + "  "
    for columns in range(20, 120):
        assert every.startswith(plain(draw_training(dashboards.healthy(), LossChart(), columns, 20).lines[0]) + "  ")


def test_training_says_when_values_are_from_the_log() -> None:
    base = samples.run(world_size=1)
    printed = replace(base, ranks=tuple(replace(rank, facts={"source": "log"}) for rank in base.ranks))
    drawing = draw_training(dashboards.view_of([samples.snapshot(runs=(printed,))]), LossChart(), 90, 20)
    assert plain(drawing.title).startswith("Training: resnet18-ddp · from the log · step 1 240")


def test_training_says_that_steps_are_counted_lines() -> None:
    base = samples.run(world_size=1)
    facts = {"source": "log", "progress": {"total_steps": None, "counts_lines": True}}
    printed = replace(base, ranks=tuple(replace(rank, facts=facts) for rank in base.ranks))
    drawing = draw_training(dashboards.view_of([samples.snapshot(runs=(printed,))]), LossChart(), 90, 20)
    assert plain(drawing.title).startswith("Training: resnet18-ddp · from the log · line 1 240")


def test_training_of_a_failed_run_names_the_rank() -> None:
    base = samples.run(state="failed", ended_at=samples.EPOCH)
    ranks = tuple(replace(rank, state="failed" if rank.rank == 2 else "killed", exit_code=1) for rank in base.ranks)
    view = dashboards.view_of([samples.snapshot(runs=(replace(base, ranks=ranks),))])
    drawing = draw_training(view, LossChart(), 90, 20)
    assert plain(drawing.title).endswith("failed after 10m00s")
    assert "rank 2 failed (exit code 1)" in plain(drawing.lines[1])


def test_training_says_how_to_begin() -> None:
    shown = "\n".join(texts(draw_training(dashboards.virtual(), LossChart(), 60, 20).lines))
    for part in ("import gputop", "gputop.init(", "run.log(loss=", "press l"):
        assert part in shown


def test_nan_loss_is_shown_as_nan() -> None:
    base = samples.run(world_size=1)
    ranks = tuple(replace(rank, metrics={"loss": math.nan}) for rank in base.ranks)
    view = dashboards.view_of([samples.snapshot(runs=(replace(base, ranks=ranks),), points=())])
    assert ("NaN", "bad") in draw_training(view, LossChart(), 60, 10).lines[0]


def test_chart_is_drawn_again_only_for_new_points() -> None:
    view, chart_of_run = dashboards.healthy(), LossChart()
    first = chart_of_run.draw(view, "loss", 60, 10)
    assert chart_of_run.draw(view, "loss", 60, 10) is first
    view.history.observe(samples.snapshot(61, points=(samples.Points("run-1", 0, "loss", (300,), (samples.EPOCH,), (9.0,)),)))
    again = chart_of_run.draw(view, "loss", 60, 10)
    assert again is not first
    assert texts(again) != texts(first)


def test_one_curve_a_rank_has_the_ranks_styles() -> None:
    view = dashboards.healthy(per_rank=True)
    styles = {span.style for part in LossChart().draw(view, "loss", 60, 12) for span in part}
    assert {"rank0", "rank1", "rank2", "rank3"} & styles == {"rank0", "rank1", "rank2", "rank3"} & styles
    assert len({style for style in styles if style.startswith("rank")}) > 1


def test_the_run_and_the_ranks_that_the_doctor_speaks_of_are_marked() -> None:
    """As GPUs and processes are: the run, and the ranks where it is not all of them; also in the legend of their curves."""
    quiet = dashboards.healthy()
    run = quiet.snapshot.runs[0]
    pids = {rank.rank: rank.pid for rank in run.ranks if rank.pid is not None}

    def drawn(view: View, finding: Finding, width: int = 80, height: int = 20) -> str:
        pane = draw_training(replace(view, findings=(finding,)), LossChart(), width, height)
        return "\n".join(map(plain, (pane.title, *pane.lines)))

    of_all = replace(dashboards.ONE_GPU, run=run.run_id, pids=tuple(pids.values()))
    of_some = replace(of_all, pids=(pids[1], pids[2]))
    elsewhere = replace(dashboards.ONE_GPU, run="another run", pids=(1,))
    single = dashboards.healthy(per_rank=True)
    assert "▸" not in drawn(quiet, elsewhere) + drawn(single, elsewhere)
    assert "Training: ▸resnet18-ddp · 4 ranks · " in drawn(quiet, of_all)
    assert drawn(single, of_all).count("▸") == 1
    for size in ((80, 20), (40, 6)):
        assert "▸resnet18-ddp · 4 ranks ▸1, 2" in drawn(quiet, of_some, *size)
    assert "━ rank 0  ━ ▸rank 1  ━ ▸rank 2  ━ rank 3" in drawn(single, of_some)
    assert "* rank 0  + ▸rank 1  o ▸rank 2  x rank 3" in drawn(dashboards.healthy(per_rank=True, ascii=True), of_some)
    assert "rank 0" not in drawn(single, of_some, 80, 5), "a low pane keeps its lines for the chart"
    pane = draw_training(replace(quiet, findings=(of_some,)), LossChart(), 80, 20)
    assert {span.style for span in pane.title if "▸" in span.text} == {"accent"}


def test_loss_is_found_by_name() -> None:
    assert loss_name(("lr", "train/loss")) == "train/loss"
    assert loss_name(("lr", "my_loss")) == "my_loss"
    assert loss_name(("reward",)) == "reward"
    assert loss_name(()) is None


# Processes


def rows_text(view: View, order: Order, columns: int = 100) -> list[str]:
    return texts(draw_processes(view, process_rows(view.snapshot, order), order, columns).lines)


def test_process_rows_show_which_process_is_where() -> None:
    rows = rows_text(dashboards.one_gpu(), Order())
    assert rows[0].split() == ["GPU", "PID", "USER", "GPU-MEM", "SM%", "CPU%", "RSS", "RANK", "RUN", "TIME", "COMMAND"]
    assert rows[1].split()[:11] == ["0", "4000", "ada", "15.0", "GiB", "24", "104", "3.0G", "0", "resnet18-ddp", "10m"]
    assert "python -u train.py" in rows[1]


def test_columns_leave_by_their_importance_and_long_names_of_runs_get_room() -> None:
    view = dashboards.one_gpu()
    run = replace(samples.run(), name="a-run-with-quite-a-long-name")
    long = dashboards.view_of([replace(view.snapshot, runs=(run,))])
    assert "a-run-with-quite-a-long-name" in rows_text(long, Order(), 140)[1]
    assert "a-run-with-…" in rows_text(long, Order(), 100)[1]
    kept = [set(rows_text(view, Order(), columns)[0].split()) for columns in range(40, 140)]
    assert all(fewer <= more for fewer, more in itertools.pairwise(kept))
    order = list(dict.fromkeys(name for names in kept for name in sorted(names)))
    assert order.index("USER") < order.index("RSS")
    assert order[-1] == "RSS"


def test_command_shows_names_without_directories() -> None:
    device = samples.device(0)
    command = ("/opt/venv/bin/python", "-u", "/home/ada/project/train.py", "--data", "/data/set")
    process = samples.rank_process(0, (DeviceUse(device.uuid, samples.GIB),), command=command)
    snapshot = samples.snapshot(devices=(device,), processes=(process,))
    rows = rows_text(dashboards.view_of([snapshot]), Order(), 200)
    assert rows[1].rstrip().endswith("python -u train.py --data /data/set")


def test_a_rank_has_the_color_of_its_curve_only_while_it_has_one() -> None:
    for per_rank, wanted in ((False, {"owner"}), (True, {"rank0", "rank1", "rank2", "rank3"})):
        view = dashboards.healthy(per_rank=per_rank)
        rows = draw_processes(view, process_rows(view.snapshot, Order()), Order(), 100).lines[1:]
        assert {span.style for row in rows for span in row if span.text.strip() in ("0", "1", "2", "3")} - {"value"} == wanted


def test_commands_scroll_to_their_end_and_no_further() -> None:
    device = samples.device(0)
    command = ("/opt/venv/bin/python", "/home/ada/project/train.py", *(f"--option{number}" for number in range(20)), "--éß")
    process = samples.rank_process(0, (DeviceUse(device.uuid, samples.GIB),), command=command)
    view = dashboards.view_of([samples.snapshot(devices=(device,), processes=(process,))])
    rows = process_rows(view.snapshot, Order())
    most = scrolls_most(rows, 100)
    shown = [plain(draw_processes(view, rows, Order(), 100, scrolled=steps).lines[1]) for steps in range(most + 1)]
    assert " python train.py --opt" in shown[0]
    assert " /opt/venv/bin/python /h" in shown[1]
    assert " …/bin/python /h" in shown[2]
    assert shown[most].rstrip().endswith("--option19 --éß")
    assert not shown[most - 1].rstrip().endswith("--éß")
    assert {len(text) for text in shown} == {100}
    assert all(text[:40] == shown[0][:40] for text in shown)
    short = samples.rank_process(0, (DeviceUse(device.uuid, samples.GIB),), command=("python", "train.py"))
    assert scrolls_most(process_rows(samples.snapshot(devices=(device,), processes=(short,)), Order()), 100) == 0


def test_the_tree_shows_what_started_processes_that_belong_to_no_run() -> None:
    device = samples.device(0)
    use = (DeviceUse(device.uuid, samples.GIB),)
    chain = (Ancestor(50, "bash"), Ancestor(40, "tmux"), Ancestor(1, "systemd"))
    torchrun = Ancestor(79, "torchrun")
    alone = Process(pid=77, devices=use, command=("python", "a.py"), ancestors=chain)
    ranks = [
        Process(pid=pid, devices=use, command=("b.py",), ancestors=(torchrun, *chain), launcher=torchrun) for pid in (80, 81)
    ]
    hidden = Process(pid=90, devices=use, hidden=("command",))
    view = dashboards.view_of([samples.snapshot(devices=(device,), processes=(alone, hidden, *ranks), runs=())])
    rows = [row for row in process_rows(view.snapshot, Order(tree=True)) if row.kind != "rest"]
    assert [(row.kind, row.depth, row.pid) for row in rows] == [
        *(("parents", 0, None), ("process", 1, 77)),
        *(("parents", 0, None), ("process", 1, 80), ("process", 1, 81)),
        ("process", 0, 90),
    ]
    lines = rows_text(view, Order(tree=True), 160)
    assert "bash 50 < tmux 40 < systemd 1" in lines[1]
    assert "torchrun 79 < bash 50 < tmux 40 < systemd 1" in lines[3]


def test_process_order_filter_and_tree() -> None:
    view = dashboards.healthy()
    by_rank = [row.pid for row in process_rows(view.snapshot, Order("rank", invert=True)) if row.pid]
    assert by_rank == [4003, 4002, 4001, 4000]
    assert [row.pid for row in process_rows(view.snapshot, Order(filter=parse("4002 ADA", 0)))] == [4002]
    tree = process_rows(view.snapshot, Order(tree=True))
    assert [(row.kind, row.depth) for row in tree[:6]] == [("run", 0), ("parents", 1)] + [("process", 2)] * 4
    assert rows_text(view, Order(tree=True), 160)[2].strip() == "└ torchrun 3999 < bash 3000"
    assert "No process matches" in rows_text(view, Order(filter=parse("nobody", 0)))[0]


def test_memory_without_an_owner_is_shown() -> None:
    view = dashboards.healthy()
    rest = [row for row in process_rows(view.snapshot, Order()) if row.kind == "rest"]
    assert [[device.index for device in row.devices] for row in rest] == [[0, 1, 2, 3]], "once, not once for each GPU"
    splits = memory_splits(view.snapshot, None).values()
    assert [row.memory_bytes for row in rest] == [sum(split.unlisted or 0 for split in splits)]
    assert rows_text(view, Order())[-1].split("  ")[-1].endswith("B memory held by no listed process on GPUs 0-3")
    (one,) = [row for row in process_rows(view.snapshot, Order(filter=parse("gpu:2", 0))) if row.kind == "rest"]
    assert one.device is not None
    assert (one.device.index, one.devices) == (2, ())


def test_memory_is_not_shown_as_unowned_while_a_share_is_hidden() -> None:
    devices = (samples.device(0),)
    use = DeviceUse(devices[0].uuid, None, None, "C")
    stranger = Process(pid=77, devices=(use,), hidden=("command", "cpu_percent", "started_at"))
    snapshot = samples.snapshot(devices=devices, processes=(stranger,))
    assert [row.kind for row in process_rows(snapshot, Order())] == ["process"]
    drawing = draw_processes(dashboards.view_of([snapshot]), process_rows(snapshot, Order()), Order(), 100)
    assert plain(drawing.lines[1]).split() == ["0", "77", "?", "N/A", "N/A", "?", "N/A", "-", "-", "?", "?"]
    assert "hidden by the system" in plain(drawing.footer)


def test_what_is_hidden_where_the_kernel_allows_no_debuggers_is_not_another_users() -> None:
    devices = (samples.device(0),)
    own = Process(pid=77, devices=(DeviceUse(devices[0].uuid, None, None, "C"),), hidden=("doing", "waits_for"))
    snapshot = samples.snapshot(devices=devices, processes=(own,))
    drawing = draw_processes(dashboards.view_of([snapshot]), process_rows(snapshot, Order()), Order(), 100)
    assert not plain(drawing.footer).strip()


def test_process_of_another_namespace_says_so() -> None:
    device = samples.device(0)
    other = Process(pid=77, devices=(DeviceUse(device.uuid, 71 * samples.GIB),), in_namespace=False)
    snapshot = samples.snapshot(devices=(device,), processes=(other,))
    assert "(other PID namespace)" in rows_text(dashboards.view_of([snapshot]), Order())[1]


def test_escape_sequences_in_a_command_stay_text() -> None:
    device = samples.device(0)
    evil = samples.rank_process(0, (DeviceUse(device.uuid, samples.GIB),), command=("python", "\x1b]0;owned\x07[red]x"))
    snapshot = samples.snapshot(devices=(device,), processes=(evil,))
    shown = rows_text(dashboards.view_of([snapshot]), Order())[1]
    assert "\x1b" not in shown
    assert "[red]x" in shown


def test_least_important_columns_leave_first() -> None:
    columns = (Column("a", "A", 5, priority=0), Column("b", "B", 5, priority=2), Column("c", "C", 5, priority=1, grows=True))
    assert [column.key for column, _ in fitting(columns, 17)] == ["a", "b", "c"]
    assert [column.key for column, _ in fitting(columns, 16)] == ["a", "c"]
    assert fitting(columns, 20)[-1][1] == 8
    assert column_at(fitting(columns, 20), 7) == "b"
    assert [column.key for column, _ in fitting(columns, 3)] == ["a"]


# Doctor and header


def test_doctor_shows_headline_evidence_and_fix() -> None:
    drawing = draw_doctor(dashboards.one_gpu(), 60, 12)
    rows = texts(drawing.lines)
    assert plain(drawing.title) == "Doctor: 2 problems"
    assert rows[0].startswith("✗ A07 Only GPU 0 is used: all 4 ranks run on it")
    assert rows[0].endswith("certain")
    assert rows[1] == "  · LOCAL_RANK is 0-3, but every process sits on GPU 0"
    assert rows[3].startswith("  fix: torch.cuda.set_device(int(os.environ")
    assert any(row.startswith("! H01 GPU 3") for row in rows)


def test_doctor_keeps_every_headline_when_room_is_short() -> None:
    rows = texts(draw_doctor(dashboards.one_gpu(ascii=True), 60, 3).lines)
    assert rows[0].startswith("x A07 Only GPU 0 is used")
    assert rows[1].startswith("  fix:")
    assert rows[2].startswith("! H01 GPU 3")
    assert len(rows) == 3


@pytest.mark.parametrize("run", ["", "nan"])
def test_a_headline_is_never_cut_within_a_number(run: str) -> None:
    """ "since step 3…" was what was left of step 300."""
    found = Finding("J01", "error", "certain", "The loss is NaN or infinite since step 12345 of 99", (), "", "", "")
    for cells in range(50, 80):
        shown = plain(headline(found, cells, run=run))
        assert len(shown) == cells
        assert not re.search(r"step \d{1,4}…", shown)


def test_a_fix_that_is_cut_begins_with_its_first_command() -> None:
    """At 80x24 it was only the comment above it."""

    def shown(fix: str, height: int) -> list[str]:
        found = Finding("A07", "error", "likely", "Every rank is on one GPU", (), "", fix, "")
        return texts(draw_doctor(replace(dashboards.one_gpu(), findings=(found,)), 60, height).lines)

    fix = "# before the model is made\n\ntorch.cuda.set_device(rank)\n# then\nmodel.cuda()"
    assert shown(fix, 2)[1] == "  fix: torch.cuda.set_device(rank)"
    assert shown(fix, 12)[1] == "  fix: # before the model is made"
    assert shown("# read train.py:9\n# and the log", 2)[1] == "  fix: # read train.py:9"
    assert shown("#SBATCH --gpus=4\nsrun true", 2)[1] == "  fix: #SBATCH --gpus=4"


def test_doctor_without_a_finding_says_what_it_looked_at() -> None:
    view = replace(dashboards.healthy(), abstained=(Abstained("B01", "No rank tells its wrapper.", "Use gputop.watch."),))
    shown = texts(draw_doctor(view, 70, 12).lines)
    assert shown[0] == "No problem found"
    assert shown[1] == "Looked at 8 GPUs, 4 processes and 1 live run."
    assert shown[2].startswith("Not judged (B01): No rank tells its wrapper.")


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_header_of_the_wide_screen(utc: None) -> None:
    shown = plain(header_line(dashboards.healthy(), 130))
    assert shown.startswith(" gputop  node7 · 8 × H100 80GB · driver 580.95 · CUDA 13.0  ")
    assert shown.endswith("CPU 34%   RAM 210/1007 GiB   14:14:19   1.0 s ")


def test_header_names_what_gputop_itself_costs_where_there_is_room(utc: None) -> None:
    view = replace(dashboards.healthy(), own_cost=Cost(1.94, 620.0))
    assert "gputop 1.9% · 620 B/s   CPU 34%   RAM" in plain(header_line(view, 160))
    assert plain(header_line(view, 100)) == plain(header_line(dashboards.healthy(), 100)), "it leaves first"
    assert "gputop 1.9%   CPU" in plain(header_line(replace(view, own_cost=Cost(1.94, None)), 160))


def test_header_keeps_badges_and_clock_when_narrow(utc: None) -> None:
    view = replace(dashboards.virtual(), paused=True, stale_s=4.0)
    for cells in (60, 80, 200):
        shown = plain(header_line(view, cells))
        assert len(shown) == cells
        for part in ("gputop", "VIRTUAL GPUs", "PAUSED", "STALE 4s", "14:13:49"):
            assert part in shown


def test_history_of_another_machine_draws_no_chart() -> None:
    view = replace(dashboards.healthy(), history=History())
    assert "no metric yet" in "\n".join(texts(draw_training(view, LossChart(), 60, 12).lines))


@pytest.mark.parametrize("values", [(1e308, 1e308), (-1e308, 1e308), (math.inf, -math.inf), (1e200, math.nan), (-0.0, 5e-324)])
def test_no_loss_of_two_ranks_breaks_the_training_pane(values: tuple[float, float]) -> None:
    base = samples.run(world_size=2)
    ranks = tuple(replace(rank, metrics={"loss": value}) for rank, value in zip(base.ranks, values, strict=True))
    clock = tuple(samples.EPOCH + step for step in range(20))
    points = tuple(
        samples.Points("run-1", n, "loss", tuple(range(20)), clock, (value, -value) * 10) for n, value in enumerate(values)
    )
    view = dashboards.view_of([samples.snapshot(runs=(replace(base, ranks=ranks),), points=points)])
    for log in (False, True):
        shown = replace(view, settings=replace(view.settings, log_axis=log))
        assert len(draw_training(shown, LossChart(), 80, 20).lines) == 20


@pytest.mark.parametrize("value", [sys.float_info.max, -sys.float_info.max, -1.797e308, 5e-324])
def test_a_chart_of_the_largest_and_the_smallest_number(value: float) -> None:
    assert chart([Trace([value, value])], width=40, height=8)
