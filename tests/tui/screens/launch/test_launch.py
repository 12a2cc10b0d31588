from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from gputop.errors import GputopError
from gputop.hosts.transport import transport_of
from gputop.jobs import identity, record, slurm, slurm_submit_apart, stopping, store
from gputop.over_hosts.watched import HostJobs
from gputop.places import jobs_dir, make_private_dir
from gputop.recipes import catalogue, own_commands
from gputop.recipes.catalogue import Option, Recipe
from gputop.settings.values import Settings
from gputop.snapshot import Device, DeviceUse
from gputop.tui.drawing.line import plain
from gputop.tui.screens.launch import entries, following
from gputop.tui.screens.launch import form as launch_form
from gputop.tui.screens.launch.polling import poll
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.screens.stop import StopScreen
from gputop.tui.widgets.choice_list import ChoiceList
from gputop.tui.widgets.form import Form
from tests import samples
from tests.packages import needs
from tests.patience import DEADLINE_S
from tests.tui.kit import ScreenApp, text_of, view_of

TINY = """
import os, sys, time
print("arguments", " ".join(sys.argv[1:]), flush=True)
print("devices", os.environ.get("GPUTOP_VIRTUAL_DEVICES"), flush=True)
if "broken" in sys.argv:
    raise RuntimeError("CUDA error: all of it")
print("step 1 loss 2.3000", flush=True)
time.sleep(120)
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two recipes that need no torch and begin at once; whatever they started is ended after the test."""
    script = tmp_path / "tiny.py"
    script.write_text(TINY)
    options = (
        Option("model", "Model", "choice", "good", "what to train", ("good", "broken")),
        Option("batch_size", "Batch size", "int", 64, "samples", minimum=1),
        Option("name", "Name", "text", None, "of the run"),
    )
    healthy = Recipe("tiny", "Tiny", "Prints and waits.", "Nothing.", "python", str(script), options, min_devices=2)
    faulty = replace(healthy, id="faults/tiny", title="Tiny fault", fault="A07")
    monkeypatch.setattr(catalogue, "RECIPES", (healthy, faulty))
    monkeypatch.setattr(catalogue.importlib.util, "find_spec", lambda name: object())
    yield
    for job in store.list_jobs():
        if job.active:
            with contextlib.suppress(GputopError):
                stopping.stop(job.id, grace_s=2.0)


def virtual_devices(count: int = 4) -> tuple[Device, ...]:
    return tuple(Device(index, f"VIRTUAL-{index}", "virtual GPU", "virtual", utilization_percent=0.0) for index in range(count))


def virtual_view(**changes: object):
    snapshot = samples.snapshot(devices=virtual_devices(), processes=(), runs=(), points=(), time=time.time())
    host = replace(snapshot.host, boot_id=identity.boot_id(), source="virtual")
    return view_of(replace(snapshot, host=host), **changes)


async def until(pilot: Pilot[None], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, text_of(pilot.app)
        await pilot.pause(0.05)


async def test_three_keys_start_a_job_and_show_its_log(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("enter", "enter")
        await until(pilot, lambda: "step 1 loss 2.3000" in text_of(app))
        shown = text_of(app)
        assert "arguments --model good --batch-size 64" in shown
        assert "devices 0,1" in shown
        assert "Esc: watch it on the dashboard" in shown
        (job,) = store.list_jobs()
        assert job.recipe_id == "tiny"
        assert job.device_uuids == ("VIRTUAL-0", "VIRTUAL-1")
        await until(pilot, lambda: "running" in text_of(app))
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, LaunchScreen)
    assert store.find(job.id).active


async def test_the_last_line_names_the_keys_of_the_pane_with_the_focus(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()

        async def named(pane: str) -> str:
            app.screen.query_one(f"#{pane}").focus()
            await pilot.pause()
            return text_of(app).splitlines()[-1]

        assert "Up/Down recipe  / search  Enter its form" in await named("recipes")
        form = await named("form")
        assert "Esc back  Up/Down field  F5 start" in form
        assert not re.search(r"(^|  )\S [a-z]", form), "a printable key is typed into the field"
        assert "Up/Down job  Enter its log  x stop the job" in await named("jobs")
        assert "r one rank" in await named("log")

        await named("jobs")
        app.screen.post_message(events.DescendantFocus(app.screen.query_one("#form")))  # the form had it for a moment
        await pilot.pause()
        assert "Up/Down job  Enter its log" in text_of(app).splitlines()[-1]


def test_the_details_of_many_gpus_are_below_one_another() -> None:
    devices = tuple(samples.device(index, name="NVIDIA A100" if index == 3 else "NVIDIA H100 80GB HBM3") for index in range(12))
    view = view_of(samples.snapshot(devices=devices, processes=()))
    labels = [field.label for field in launch_form.device_fields(view, ()) if field.kind == "check"]
    assert len({len(label) for label in labels}) == 1
    assert (labels[0][:4], labels[11][:4]) == (" 0  ", "11  ")


async def test_a_list_from_before_a_start_does_not_choose_another_job(tiny: None) -> None:
    screen = LaunchScreen()
    app = ScreenApp(screen, virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("f5")
        await until(pilot, lambda: len(screen.jobs) == 1)
        early = poll(None, None, screen.starts)
        screen.query_one(Form).field("batch_size").value = "32"
        await pilot.press("f5")
        await until(pilot, lambda: len(screen.jobs) == 2)
        screen.post_message(early)
        await pilot.pause()
        assert early.found is not None
        (first,) = early.found.jobs
        chosen = screen.chosen_job()
        assert chosen is not None
        assert chosen.id != first.id


@pytest.mark.parametrize("size", [(160, 50), (120, 40), (100, 30), (80, 24)], ids=str)
async def test_names_titles_and_descriptions_are_whole(size: tuple[int, int]) -> None:
    parts = ("id", "title", "description")
    longest = [max(catalogue.RECIPES, key=lambda recipe, part=part: len(getattr(recipe, part))) for part in parts]
    for recipe in {recipe.id: recipe for recipe in longest}.values():
        app = ScreenApp(LaunchScreen(recipe=recipe.id), view_of())
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await pilot.pause()
            recipes, form = app.screen.query_one("#recipes", ChoiceList), app.screen.query_one("#form", Form)
            assert recipe.id.removeprefix("faults/") in plain(recipes.lines[recipes.cursor or 0])
            assert recipe.title in plain(form.build_rows()[0])
            assert recipe.description in " ".join(plain(row).strip("│ ") for row in form.build_rows()[1:4])
            assert not any("…" in plain(row) for row in (*recipes.build_rows(), form.build_rows()[0]))


async def test_digits_choose_gpus_and_typing_changes_a_number(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("enter", "down", "0", "3")
        form = app.screen.query_one(Form)
        assert launch_form.chosen_uuids(form.fields) == ("VIRTUAL-1", "VIRTUAL-3")
        await pilot.press("down", "down", "down", "down", "down", "3", "2")
        assert form.field("batch_size").value == "32"
        await pilot.press("f5")
        await until(pilot, lambda: "devices 1,3" in text_of(app))
        assert "--batch-size 32" in text_of(app)


async def test_stopping_asks_and_no_is_the_default(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await pilot.press("f5")
        await until(pilot, lambda: store.list_jobs() and store.list_jobs()[0].state == "running")
        await until(pilot, lambda: "running" in text_of(app))
        (job,) = store.list_jobs()
        await pilot.press("x")
        await pilot.pause()
        assert isinstance(app.screen, StopScreen)
        assert job.id in text_of(app)
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, LaunchScreen)
        assert store.find(job.id).active
        await pilot.press("x", "y")
        await until(pilot, lambda: not store.find(job.id).active)
        await until(pilot, lambda: "stopped" in text_of(app))
    assert identity.marked(job.id) == []


async def test_a_job_that_fails_shows_its_exit_code_and_its_error(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("enter")
        form = app.screen.query_one(Form)
        form.choose("model")
        await pilot.press("right", "f5")
        await until(pilot, lambda: "RuntimeError: CUDA error: all of it" in text_of(app))
        await until(pilot, lambda: "failed, exit 1" in text_of(app))


async def test_missing_values_are_reported_in_the_form(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("enter", "down", "space")
        assert "choose 1 more GPU" in text_of(app)
        await pilot.press("f5")
        await pilot.pause()
        assert "needs at least 2 GPUs; 1 chosen." in text_of(app)
        assert store.list_jobs() == []


async def test_a_wrong_value_is_marked_beside_its_field(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("enter")
        app.screen.query_one(Form).choose("batch_size")
        await pilot.press("0", "f5")
        await pilot.pause()
        assert "It must be at least 1." in text_of(app)
        assert store.list_jobs() == []


async def test_a_failure_to_start_is_shown_with_its_hint(tiny: None, tmp_path: Path) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        Path(os.environ["GPUTOP_DIR"]).write_text("a file where the directory should be")
        await pilot.press("f5")
        await pilot.pause()
        assert "The job cannot be started" in text_of(app)
        assert "Check that you can write to" in text_of(app)


async def test_a_damaged_job_is_named_below_the_others(tiny: None) -> None:
    record.write_json(make_private_dir(jobs_dir() / "odd") / record.SPEC, {"id": "odd"})
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: "Job odd cannot be read: spec.json has no 'name'." in text_of(app))
        await pilot.press("f5")
        await until(pilot, lambda: "running" in text_of(app) and "Job odd cannot be read" in text_of(app))


async def test_readonly_and_recordings_start_nothing(tiny: None) -> None:
    for view, words in (
        (virtual_view(settings=Settings(readonly=True)), "started with --readonly"),
        (virtual_view(feed="replay"), "This is a recording"),
    ):
        app = ScreenApp(LaunchScreen(), view)
        async with app.run_test(size=(160, 50)) as pilot:
            await pilot.pause()
            await pilot.press("f5")
            await pilot.pause()
            assert words in text_of(app)
    assert store.list_jobs() == []


async def test_typed_values_are_kept_while_another_recipe_is_shown(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("enter")
        form = app.screen.query_one(Form)
        form.choose("batch_size")
        await pilot.press("7", "1", "down", "l")
        await pilot.pause()
        assert form.field("batch_size").value == "7" + "1"
        app.screen.query_one("#recipes", ChoiceList).focus()
        await pilot.press("down", "down")  # past the person's own commands
        await pilot.pause()
        assert form.field("batch_size").value == "64"
        await pilot.press("up", "up")
        await pilot.pause()
        assert form.field("batch_size").value == "71"


async def test_the_mouse_starts_a_job(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        form = app.screen.query_one(Form)
        row = next(number for number, item in enumerate(form.items) if item.key == launch_form.START)
        await pilot.click("#form", offset=(4, row + 1))
        await until(pilot, lambda: len(store.list_jobs()) == 1)


def test_free_gpus_are_preselected_and_busy_ones_only_when_needed() -> None:
    snapshot = samples.snapshot()
    ddp = catalogue.find("ddp")
    chosen = launch_form.default_devices(ddp, snapshot)
    assert chosen == (snapshot.devices[4].uuid, snapshot.devices[5].uuid)
    assert launch_form.default_devices(catalogue.find("single"), snapshot) == (snapshot.devices[4].uuid,)
    all_busy = samples.snapshot(devices=tuple(samples.device(index) for index in range(4)))
    assert len(launch_form.default_devices(ddp, all_busy)) == ddp.min_devices
    busy_virtual = tuple(replace(device, utilization_percent=90.0) for device in virtual_devices(2))
    assert len(launch_form.default_devices(ddp, samples.snapshot(devices=busy_virtual))) == 2
    lost = samples.snapshot(devices=(samples.device(0, state="lost"), samples.idle_device(1)))
    assert [device.index for device in launch_form.usable(lost)] == [1]


def test_a_gpu_in_mig_mode_is_offered_as_its_instances() -> None:
    parent = samples.idle_device(0, mig_enabled=True)
    part = samples.idle_device(1, uuid="MIG-1", kind="mig", parent_uuid=parent.uuid, mig_label="0:1 1g.10gb")
    assert [device.uuid for device in launch_form.usable(samples.snapshot(devices=(parent, part)))] == ["MIG-1"]


async def test_a_command_of_one_s_own_starts_and_is_kept(tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_CONFIG", str(tmp_path / "config.toml"))
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("down", "enter")
        form = app.screen.query_one(Form)
        assert "your own command" in text_of(app)
        await pilot.press("f5")
        await pilot.pause()
        assert "There is no command" in text_of(app) or "empty" in text_of(app)
        form.choose("command")
        app.screen.post_message(events.Paste("python tiny.py --n={gpus}\nmore"))
        await until(pilot, lambda: str(form.field("command").value).endswith("{gpus}"))
        form.choose("cwd")
        await pilot.press("ctrl+u", *str(tmp_path))
        form.choose("name")
        await pilot.press(*"mine", "f5")
        await until(pilot, lambda: "Started mine." in text_of(app))
        await until(pilot, lambda: "arguments --n=1" in text_of(app))
        (own,) = own_commands.load()
        assert (own.name, own.command, own.cwd) == ("mine", "python tiny.py --n={gpus}", str(tmp_path))
        recipes_list = app.screen.query_one("#recipes", ChoiceList)
        assert "own mine" in [item.key for item in recipes_list.items]
        recipes_list.choose("own mine")
        await pilot.press("1", "ctrl+d")
        await until(pilot, lambda: "own mine" not in [item.key for item in recipes_list.items])
        assert own_commands.load() == ()


@pytest.mark.parametrize("content", ["{", "[]", '{"commands": 3}', '{"commands": [{"name": "x"}]}'])
async def test_own_commands_that_cannot_be_read_are_named_and_kept(content: str) -> None:
    own_commands.remember(own_commands.OwnCommand("mine", "true", "/"))
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert not app._notifications
    own_commands.file().write_text(content)
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        (notice,) = app._notifications
        assert notice.message.startswith(f"{own_commands.file()} cannot be read: ")
        assert notice.message.endswith(" Repair it, or move it away.")
    with pytest.raises(GputopError, match="Repair it"):
        own_commands.remember(own_commands.OwnCommand("other", "true", "/"))
    assert own_commands.file().read_text() == content


async def test_choosing_a_gpu_in_use_shows_who_uses_it(tiny: None) -> None:
    view = virtual_view()
    busy = replace(samples.rank_process(0, (DeviceUse("VIRTUAL-0", 2**30, 50.0, ""),)), user="grace", name="python")
    view = replace(view, snapshot=replace(view.snapshot, processes=(busy,)))
    app = ScreenApp(LaunchScreen(), view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        app.screen.query_one(Form).choose("gpu VIRTUAL-0")
        await pilot.press("2", "space", "f5")
        await until(pilot, lambda: "In use already: GPU 0 by grace python" in text_of(app))


TWO_RANKS = """
import os, sys, time
directory = os.path.join(os.environ["PET_LOG_DIR"], "x_1", "attempt_0")
for rank in range(2):
    os.makedirs(os.path.join(directory, str(rank)))
    with open(os.path.join(directory, str(rank), "stdout.log"), "w") as file:
        for step in range(30_000):
            file.write(f"rank {rank} at step {step}\\n")
        file.write("RuntimeError: CUDA error: invalid device ordinal\\n" if rank else "")
print("the launcher says hello")
sys.exit(1)
"""


async def test_the_log_is_switched_by_rank_searched_and_paged_and_says_why_it_failed(tiny: None) -> None:
    store.start(catalogue.Launch((sys.executable, "-c", TWO_RANKS), {}, "/", "two-ranks"))
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: "failed" in text_of(app))
        await pilot.press("3")
        await until(pilot, lambda: "invalid device ordinal" in text_of(app) or "LOCAL_RANK" in text_of(app))
        await until(pilot, lambda: "fix: " in text_of(app))
        await pilot.press("4", "r")
        await until(pilot, lambda: "the launcher says hello" in text_of(app) and "at step" not in text_of(app))
        await pilot.press("r")
        await until(pilot, lambda: "rank 0 at step 29999" in text_of(app) and "rank 1 at" not in text_of(app))
        await pilot.press("slash", *"step 77", "enter")
        await until(pilot, lambda: "rank 0 at step 7799" in text_of(app))
        await pilot.press("N")
        await until(pilot, lambda: "rank 0 at step 7798" in text_of(app))
        await pilot.press("home")
        await until(pilot, lambda: "rank 0 at step 0" in text_of(app))
        await pilot.press("end")
        await until(pilot, lambda: "rank 0 at step 29999" in text_of(app))
        await pilot.press("slash", *"no such thing", "enter")
        await until(pilot, lambda: "is not found" in text_of(app))


async def test_a_letter_typed_into_a_number_triggers_no_other_action(tiny: None) -> None:
    """ "q" ended gputop without a question, and "c" opened the comparison."""
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        form = app.screen.query_one(Form)
        form.focus()
        form.choose("batch_size")
        await pilot.press("q", "c", "x", "question_mark", "l", "1")
        await pilot.pause()
        assert isinstance(app.screen, LaunchScreen)
        assert app.is_running
        assert form.field("batch_size").value == "1"
        assert "default 64" in text_of(app)
        await pilot.press("y")
        assert "a whole number, please" in text_of(app)
        form.choose("model")
        await pilot.press("q", "b")
        assert app.is_running
        assert form.field("model").value == "broken", "a letter takes the choice that begins with it"
        assert "a whole number, please" not in text_of(app)


SLOW_HOST = """
case $1 in
    jobs) cat "$GPUTOP_TEST_FOLDER/listed"; exit;;
    launch) ;;
    *) exit;;
esac
read -r order
echo "$order" >> "$GPUTOP_TEST_FOLDER/orders"
until [ -e "$GPUTOP_TEST_FOLDER/awake" ]; do sleep 0.05; done
echo '{"ready": {"address": "127.0.0.1", "port": 1}}'
read -r go; echo '{"started": "x"}'; read -r keep; echo '{"kept": "x"}'
"""


async def test_a_second_f5_starts_nothing_twice_on_hosts(tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_TEST_FOLDER", str(tmp_path))
    there, listed, orders = tmp_path / "gputop there", tmp_path / "listed", tmp_path / "orders"
    there.write_text(SLOW_HOST)
    listed.write_text("[]\n")
    over = HostJobs(("a",), transport_of("env GPUTOP_TEST_HOST={host}", f"sh {shlex.quote(str(there))}"))
    app = ScreenApp(LaunchScreen(recipe="tiny", over=over), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("f5")
        await until(pilot, lambda: orders.exists() and orders.read_text().endswith("\n"))
        try:
            await pilot.press("f5")
            await pilot.pause()
            assert "The last start has not been answered yet." in text_of(app)
            job = {"id": json.loads(orders.read_text())["order"]["id"], "name": "tiny", "state": "running"}
            listed.write_text(f"{json.dumps([job])}\n")
        finally:
            (tmp_path / "awake").touch()  # the end of the app waits for its threads
        await until(pilot, lambda: "Its output comes below." in text_of(app))
        await pilot.press("f5")
        await pilot.pause()
        assert "tiny already runs with these settings. " in text_of(app)
        assert len(orders.read_text().splitlines()) == 1


async def test_a_second_f5_asks_before_it_starts_a_twin(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("f5")
        await until(pilot, lambda: len(store.list_jobs()) == 1)
        await pilot.press("f5")
        await pilot.pause()
        assert len(store.list_jobs()) == 1
        assert "tiny already runs with these settings. " in text_of(app)
        await pilot.press("f5")
        await until(pilot, lambda: len(store.list_jobs()) == 2)


async def test_recipes_are_found_by_typing(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        recipes = app.screen.query_one("#recipes", ChoiceList)
        keys = [item.key for item in recipes.items if item.key]
        assert keys == ["tiny", "own ", "faults/tiny"]
        await pilot.press("slash", *"faul")
        await pilot.pause()
        assert [item.key for item in recipes.items if item.key] == ["faults/tiny"]
        assert recipes.chosen == "faults/tiny"
        assert "/faul_" in text_of(app)
        await pilot.press("q", "q")
        await pilot.pause()
        assert "no recipe contains these letters" in text_of(app)
        await pilot.press("f5")
        assert len(store.list_jobs()) == 0
        await pilot.press("backspace", "backspace", "enter")
        await pilot.pause()
        assert app.screen.query_one(Form).has_focus
        recipes.focus()
        await pilot.press("escape")
        await pilot.pause()
        assert [item.key for item in recipes.items if item.key] == keys
        assert isinstance(app.screen, LaunchScreen)


async def test_another_form_opens_on_its_first_field(tiny: None) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        form = app.screen.query_one(Form)
        assert form.chosen == "start"
        app.screen.query_one("#recipes", ChoiceList).choose("own ")
        await pilot.pause()
        assert form.chosen == "command"


SLURM = {
    "sbatch": """printf '%s\\n' "$@" > {kept}/asked; cat > {kept}/script; printf 'step 1\\n' > {kept}/out; echo 42""",
    "scontrol": "printf 'JobId=42\\n   StdOut={kept}/out\\n'",
    "squeue": """test -e {kept}/gone || echo "42|$(cat {kept}/word)|Priority|n[1-2]|N/A|N/A|N/A|"{kept}"|train"
        test ! -e {kept}/gone || echo "42|CANCELLED|None||N/A|N/A|N/A|"{kept}"|train" """,
    "scancel": """test "$1" = 42 && touch {kept}/gone""",
}


async def test_a_command_becomes_a_job_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "word").write_text("PENDING")
    for name, script in SLURM.items():
        (programs / name).write_text(f"#!/bin/sh\n{script.replace('{kept}', chr(39) + str(tmp_path) + chr(39))}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(following, "SLURM_POLL_S", 0.2)
    app = ScreenApp(LaunchScreen(recipe=entries.OWN), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        form = app.screen.query_one(Form)
        form.field("command").value = "python train.py --lr {gpus}"
        form.field("cwd").value = str(tmp_path)
        form.field(entries.SBATCH).value = "-N2 -p gpu"
        await pilot.press("f5")
        await until(pilot, lambda: "counts the GPUs of this machine" in text_of(app))
        form.field("command").value = "LR=0.1 TOKEN='a $b' python train.py"
        await pilot.press("f5")
        await until(pilot, lambda: "Slurm job 42" in text_of(app))
        asked = (tmp_path / "asked").read_text().splitlines()
        assert asked[-3:] == ["-N2", "-p", "gpu"]
        assert f"--chdir={tmp_path}" in asked
        script = (tmp_path / "script").read_text()
        (job,) = store.list_jobs()
        assert "export LR=0.1\nexport TOKEN='a $b'\nsrun " in script
        assert script.count("a $b") == 1, "no word of a command holds it, which other users would see"
        assert "a $b" not in (job.directory / record.SPEC).read_text()
        assert (job.directory / record.BATCH).stat().st_mode & 0o777 == 0o600
        await until(pilot, lambda: "waiting: Slurm job 42" in text_of(app))
        await until(pilot, lambda: "step 1" in text_of(app))
        (tmp_path / "word").write_text("RUNNING")
        await until(pilot, lambda: "running: Slurm job 42 on n[1-2]" in text_of(app))
        await pilot.press("x")
        await until(pilot, lambda: "scancel" in text_of(app))
        await pilot.press("y")
        await until(pilot, lambda: "stopped on request" in text_of(app))
    assert own_commands.load()[0].sbatch == "-N2 -p gpu"


@needs("torch")
async def test_a_recipe_becomes_a_job_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/asked; cat > {tmp_path}/script; echo 42\n")
    (tmp_path / "scontrol").write_text("#!/bin/sh\n")
    for name in ("sbatch", "scontrol"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    app = ScreenApp(LaunchScreen(recipe="ddp"), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        form = app.screen.query_one(Form)
        form.field("batch_size").value = "8"
        form.field(entries.SBATCH).value = "-p gpu -N2"
        await pilot.press("f5")
        await until(pilot, lambda: "Slurm job 42" in text_of(app))
    (job,) = store.list_jobs()
    assert (job.recipe_id, job.slurm is not None, job.active) == ("ddp", True, True)
    assert (tmp_path / "asked").read_text().splitlines()[-3:] == ["-p", "gpu", "-N2"]
    script = (tmp_path / "script").read_text()
    assert "--batch-size 8" in script
    assert "--nproc-per-node=4" in script, "on as many virtual GPUs of each node as gputop was started with"


async def test_only_what_trains_on_several_nodes_offers_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "has_slurm", lambda: True)
    for recipe, offers in (("ddp", True), ("single", False)):
        app = ScreenApp(LaunchScreen(recipe=recipe), virtual_view())
        async with app.run_test(size=(160, 50)) as pilot:
            await pilot.pause()
            assert [field.name for field in app.screen.query_one(Form).fields].count(entries.SBATCH) == offers


async def test_a_job_that_slurm_refuses_is_reported_in_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: gpu' >&2; exit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    own_commands.remember(own_commands.OwnCommand("mine", "python train.py", str(tmp_path), sbatch="-p gpu"))
    app = ScreenApp(LaunchScreen(recipe=f"{entries.OWN}mine"), virtual_view())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await pilot.press("f5")
        await until(pilot, lambda: "sbatch failed: invalid partition specified" in text_of(app))
    assert store.list_jobs() == []


async def test_slurm_is_asked_again_after_a_failure_that_nobody_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refresh(jobs: object) -> list[GputopError]:
        asked.append(1)
        raise ValueError("an odd answer")

    monkeypatch.setattr(following, "SLURM_POLL_S", 0.05)
    monkeypatch.setattr(slurm, "refresh", refresh)
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        await until(pilot, lambda: len(asked) > 1)
        await until(pilot, lambda: "an odd answer" in str([notice.message for notice in app._notifications]))


async def test_a_start_is_answered_by_a_failure_that_nobody_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(*ordered: object) -> object:
        raise ValueError("an odd answer")

    monkeypatch.setattr(slurm_submit_apart, "submit_apart", submit)
    monkeypatch.setattr(entries, "has_slurm", lambda: True)
    own_commands.remember(own_commands.OwnCommand("mine", "python train.py", str(tmp_path), sbatch="-p gpu"))
    app = ScreenApp(LaunchScreen(recipe=f"{entries.OWN}mine"), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        for _ in range(2):
            await pilot.pause()
            await pilot.press("f5")
            await until(pilot, lambda: "an odd answer" in text_of(app))
            app.screen.query_one(Form).show_message([], launch_form.START)
            await pilot.pause()
            assert "an odd answer" not in text_of(app)


async def test_a_form_for_slurm_starts_no_series_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "has_slurm", lambda: True)
    app = ScreenApp(LaunchScreen(recipe=entries.OWN), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        form = app.screen.query_one(Form)
        form.field("command").value = "true"
        form.field("cwd").value = str(tmp_path)
        form.field(entries.SBATCH).value = "-N2"
        await pilot.press("f6")
        await until(pilot, lambda: "on this machine only" in text_of(app))
        assert "Empty the field Slurm, or press F5." in text_of(app)
    assert store.list_jobs() == []


async def test_without_a_job_the_recipes_have_the_room(tmp_path: Path) -> None:
    app = ScreenApp(LaunchScreen(), virtual_view())
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: app.screen.polled)  # type: ignore[attr-defined]
        recipes, jobs, log = (app.screen.query_one(name) for name in ("#recipes", "#jobs", "#log"))
        await until(pilot, lambda: "No job yet." in text_of(app))
        assert (jobs.size.height, log.size.height) == (3, 3)
        assert "No job is chosen." in text_of(app)
        assert "Reading the log" not in text_of(app)
        assert recipes.size.height == 42
        app.screen.jobs = [store.Job("20260921-141300-aaaa", "mine", "finished", (), tmp_path)]  # type: ignore[attr-defined]
        app.screen.make_room()  # type: ignore[attr-defined]
        await until(pilot, lambda: jobs.size.height == 4)
        assert recipes.size.height == 23


async def test_who_uses_a_gpu_is_not_cut_on_a_small_terminal() -> None:
    app = ScreenApp(LaunchScreen(), view_of(samples.ranks_on_one_gpu()))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        rows = [row.rpartition("││")[2] for row in text_of(app).splitlines() if re.search(r"\[[x ]\] \d ", row)]
        assert len(rows) >= 4
        assert "20.0G free   98%  by ada " in rows[0]
        assert "79.5G free    0%  idle " in rows[1]
