from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gputop
from gputop.tracking.journal import identity, places
from gputop.tracking.journal.writing.values import number
from gputop.tracking.reader.runs import RunReader
from tests.tracking.kit import Home, clean_environment, home, read_all

assert home

HEAVY = {"textual", "torch", "numpy", "psutil", "pynvml", "plotext", "asyncio", "json", "typing", "dataclasses", "threading"}


def test_importing_gputop_loads_nothing_heavy(tmp_path: Path) -> None:
    script = f"import sys, gputop; print(sorted({HEAVY!r} & set(sys.modules)))"
    # -S: site-packages' own start-up files load what they like.
    found = subprocess.run(
        [sys.executable, "-S", "-c", script], env=clean_environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_tracking_loads_the_standard_library_alone(home: Home) -> None:
    script = (
        "import gputop, sys\nrun = gputop.init(config={'a': 1})\nrun.log(loss=1.0)\ngputop.watch(object())\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in "
        "('textual', 'torch', 'numpy', 'psutil', 'pynvml', 'plotext')))"
    )
    code, out, err = home.run(script)
    assert (code, out.strip(), err) == (0, "[]", "")


def test_the_names_that_scripts_use_are_there() -> None:
    for name in ("init", "log", "finish", "fact", "watch", "Run"):
        assert callable(getattr(gputop, name))
        assert name in dir(gputop)
    with pytest.raises(AttributeError, match="no_such_name"):
        gputop.no_such_name  # noqa: B018


def test_a_plain_script_from_init_to_the_end(home: Home) -> None:
    script = """
import gputop
run = gputop.init(project="p", name="plain", config={"lr": 0.1, "model": object}, total_steps=50, epochs=2, tags=["a"], id="x")
for step in range(50):
    with run.phase("data"):
        pass
    gputop.log(loss=1.0 / (step + 1), lr=0.1)
run.config.batch_size = 64
run.config.update({"seed": 1}, allow_val_change=True)
run.summary["best"] = 0.02
run.define_metric("loss", goal="min")
run.alert("done", "all good")
gputop.fact("devices", [{"name": "cpu", "uuid": None, "virtual_index": 0, "thread_id": None, "memory_bytes": 5}])
"""
    code, out, err = home.run(script, GPUTOP_JOB_ID="job-7")
    assert (code, out, err) == (0, "", "")
    reader = RunReader(home.runs)
    update = reader.poll()
    (run,) = update.runs
    (rank,) = run.ranks
    assert (run.name, run.project, run.job_id, run.state, run.world_size) == ("plain", "p", "job-7", "finished", 1)
    assert run.command is not None
    assert run.command[-1].endswith("script0.py")
    assert run.config == {"lr": 0.1, "model": "<class 'object'>", "batch_size": 64, "seed": 1}
    assert run.created_at is not None
    assert run.ended_at is not None
    assert run.ended_at >= run.created_at
    assert (rank.rank, rank.step, rank.exit_code) == (0, 49, None)
    assert rank.metrics["loss"] == 0.02
    assert 0 <= rank.metrics["phase/data"] < 1
    assert rank.facts["progress"] == {"total_steps": 50, "epochs": 2}
    assert rank.facts["summary"] == {"best": 0.02}
    assert rank.facts["metrics"]["loss"]["goal"] == "min"
    assert rank.facts["alert"]["title"] == "done"
    assert rank.facts["tags"] == ["a"]
    assert rank.facts["devices"][0]["virtual_index"] == 0
    points = {item.metric: item for item in update.points}
    assert points["loss"].steps == tuple(range(50))
    assert points["phase/data"].steps == tuple(range(50)), "a phase belongs to the step that is logged after it"
    assert all(run.created_at - 1 <= time <= run.ended_at + 1 for time in points["loss"].times)
    assert list(points["loss"].times) == sorted(points["loss"].times)
    again = reader.poll()
    assert again.points == ()
    assert again.runs == update.runs


@pytest.mark.parametrize("switch", [{"GPUTOP": "0"}, {"GPUTOP_MODE": "disabled"}, {"GPUTOP_RANKS": "0", "RANK": "1"}])
def test_switched_off_it_has_the_whole_surface_and_writes_nothing(home: Home, switch: dict[str, str]) -> None:
    script = """
import gputop
with gputop.init(name="x", config={"a": 1}) as run:
    assert run.disabled
    run.log(loss=1.0); run.log({"a": 2}, step=3, commit=False); gputop.log(loss=2.0)
    run.fact("a", 1); run.text("t"); run.alert("t", "x"); run.define_metric("loss"); run.watch(object())
    run.config["b"] = 2; run.config.update({"c": 3}); run.summary["d"] = 4
    with run.phase("data"):
        pass
    assert run.config.a == 1 and dict(run.config) == {"a": 1, "b": 2, "c": 3}
gputop.finish()
"""
    code, out, err = home.run(script, **switch)
    assert (code, out, err) == (0, "", "")
    assert not home.runs.exists()


def test_calls_before_init_and_after_finish_do_nothing(home: Home) -> None:
    script = """
import gputop
gputop.log(loss=1.0); gputop.log(loss=1.0); gputop.fact("a", 1); gputop.finish()
run = gputop.init(name="x")
log = run.log
run.log(loss=1.0)
run.finish(); run.finish()
run.log(loss=2.0); log(loss=3.0); gputop.log(loss=4.0); run.config["late"] = 1
"""
    code, _, err = home.run(script)
    assert code == 0
    assert err == "gputop: log was called before gputop.init(): nothing is recorded.\n"
    assert read_all(home.archives()[0]).series == {"loss": [(0, 1.0)]}


def test_init_twice_makes_two_runs_that_both_end(home: Home) -> None:
    script = "import gputop\nfor number in range(2):\n    gputop.init(name=f'n{number}').log(loss=float(number))"
    assert home.run(script, GPUTOP_RUN_ID="given")[0] == 0
    runs = {run.run_id: run for run in RunReader(home.runs).poll().runs}
    assert {run_id: (run.name, run.state) for run_id, run in runs.items()} == {
        "given": ("n0", "finished"),
        "given-2": ("n1", "finished"),
    }


def test_resume_continues_the_same_run(home: Home) -> None:
    home.run("import gputop\nrun = gputop.init(name='first')\nfor step in range(3): run.log(loss=1.0)", GPUTOP_RUN_ID="long")
    home.run("import gputop\nrun = gputop.init(resume='long')\nfor step in range(3, 6): run.log({'loss': 2.0}, step=step)")
    update = RunReader(home.runs).poll()
    (run,) = update.runs
    assert (run.run_id, run.state, len(run.ranks), run.ranks[0].step) == ("long", "finished", 1, 5)
    assert sorted(step for points in update.points for step in points.steps) == list(range(6))
    first, second = ([at for points in update.points if step in points.steps for at in points.times] for step in (0, 3))
    assert run.ranks[0].restarted_at is not None
    assert max(first) < run.ranks[0].restarted_at < min(second), "the first attempt's values are those before it"


def test_odd_values(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    class Angry:
        def __float__(self) -> float:
            raise KeyError("no")

    run = gputop.init(name="odd")
    run.log({"none": None, "text": "hello", "bool": True, "int": 3, "deep": {"er": {"x": 1}}, 5: 6.0})
    run.log(angry=Angry(), fine=1.0)
    run.log(loss=1.0, step=2**80)
    run.log(loss=1.0, step="seven")  # type: ignore[arg-type]
    run.log([1, 2])  # type: ignore[arg-type]
    run.log({}, step=3)
    run.log(loss=math.inf, step=-5)
    path = Path(run.dir or "") / "rank-00000.gpr"
    run.finish()
    sink = read_all(path)
    assert {name: points[0][1] for name, points in sink.series.items() if name != "loss"} == {
        "bool": 1.0,
        "int": 3.0,
        "deep/er/x": 1.0,
        "5": 6.0,
        "fine": 1.0,
    }
    assert [value for _, value in sink.series["loss"]] == [1.0, math.inf]
    assert [value["message"] for kind, _, value in sink.events if kind == 3] == ["text: hello"]
    err = capfd.readouterr().err
    assert "'angry' (Angry) is not a number" in err
    assert "'seven' is not an integer" in err


def test_keyboard_interrupt_passes_through_a_log_call(home: Home) -> None:
    class Interrupting:
        def __float__(self) -> float:
            raise KeyboardInterrupt

    run = gputop.init(name="interrupted")
    with pytest.raises(KeyboardInterrupt):
        run.log(loss=Interrupting())
    run.log(loss=1.0)
    assert home.only_run().ranks[0].metrics == {"loss": 1.0}


def test_a_config_may_be_an_argparse_namespace(home: Home) -> None:
    gputop.init(config=argparse.Namespace(lr=0.5, data=Path("/d"), sizes=(1, 2)))
    assert home.only_run().config == {"lr": 0.5, "data": "/d", "sizes": [1, 2]}


def test_an_unreadable_configuration_affects_nothing_else(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    gputop.init(config=7).log(loss=1.0)
    assert home.only_run().ranks[0].metrics == {"loss": 1.0}
    assert "entries of int are not recorded" in capfd.readouterr().err


def test_an_exception_in_init_is_reported_and_the_run_does_nothing(
    home: Home, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "place", lambda: 1 // 0)
    run = gputop.init()
    run.log(loss=1.0)
    assert run.disabled
    assert capfd.readouterr().err.count("the run is not recorded, the training continues") == 1


RANKS: list[tuple[dict[str, str], tuple[int, int | None, int, int]]] = [
    ({}, (0, None, 1, 0)),
    ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "TORCHELASTIC_RESTART_COUNT": "2"}, (3, 1, 8, 2)),
    ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "6"}, (5, 1, 6, 0)),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 1, 2, 0)),
    ({"RANK": "junk", "WORLD_SIZE": ""}, (0, None, 1, 0)),
]


@pytest.mark.parametrize(("environment", "wanted"), RANKS)
def test_rank_and_world_size_come_from_the_launcher(
    home: Home, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], wanted: tuple[int, int | None, int, int]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = identity.place()
    assert (found.rank, found.local_rank, found.world_size, found.restart_count) == wanted


def test_ranks_of_one_job_share_a_run_id_and_two_jobs_do_not(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def ids(**environment: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(identity, "_inits", 0)
            for name, value in environment.items():
                patch.setenv(name, value)
            return identity.run_id(identity.place(), None)

    torchrun = {
        "TORCHELASTIC_RUN_ID": "none",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_a/none_b/attempt_0/0/error.json",
    }
    first = ids(RANK="0", **torchrun)
    other = {"TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_a/none_b/attempt_0/1/error.json"}
    assert ids(RANK="1", **{**torchrun, **other}) == first
    assert ids(RANK="0", **{**torchrun, "TORCHELASTIC_ERROR_FILE": "/tmp/torchelastic_c/none_d/attempt_0/0/e"}) != first
    assert ids(RANK="0", TORCHELASTIC_RESTART_COUNT="1", **torchrun) != first
    assert ids(RANK="0", WORLD_SIZE="2") == ids(RANK="1", WORLD_SIZE="2")
    assert ids(SLURM_PROCID="0", SLURM_NTASKS="2", SLURM_JOB_ID="9", SLURM_STEP_ID="1") == "slurm-9.1"
    assert ids() != ids()
    assert ids(GPUTOP_RUN_ID="../../etc") == "_.._etc"


def test_network_file_systems_get_no_live_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places.file_system(Path("/proc/self")) == "proc"
    assert places.file_system(Path("/dev/shm")) == "tmpfs"
    for kind, away in {"nfs4": True, "fuse.sshfs": True, "lustre": True, "ext4": False, "overlay": False, None: True}.items():
        monkeypatch.setattr(places, "file_system", lambda path, kind=kind: kind)
        assert (places.archive_root(tmp_path) != tmp_path) is away


def test_a_value_on_another_device_is_never_read(capfd: pytest.CaptureFixture[str]) -> None:
    class Device:
        type = "xpu"

        def __str__(self) -> str:
            return "xpu:0"

    class Tensor:
        """Acts like a tensor on an accelerator other than CUDA; anything that would wait for the device fails the test."""

        is_cuda = False
        device = Device()

        def numel(self) -> int:
            return 1

        def _wait(self, *_: Any) -> Any:
            raise AssertionError("this synchronizes")

        item = cpu = tolist = __float__ = __int__ = __bool__ = __index__ = _wait

    assert number("loss_on_xpu", Tensor()) is None
    err = capfd.readouterr().err
    assert "synchronizes" not in err
    assert "loss_on_xpu.item()" in err


def test_errors_on_stderr_can_be_silenced(home: Home) -> None:
    code, _, err = home.run("import gputop\ngputop.log(loss=1.0)", GPUTOP_SILENT="1")
    assert (code, err) == (0, "")
    assert os.path.exists(home.state)


def test_a_configuration_s_tensor_on_a_gpu_is_not_read(home: Home) -> None:
    class Tensor:
        is_cpu, shape, device = False, (2, 3), "cuda:0"

        def __str__(self) -> str:
            raise AssertionError("it would wait for the GPU")

    class DTensor(Tensor):
        is_cpu = True

    run = gputop.init(config={"weights": Tensor(), "sharded": [DTensor()], "path": Path("a")})
    run.finish()
    config = {value["name"]: value["value"] for _, _, value in read_all(home.archives()[0]).events if value["type"] == "config"}
    assert config == {"weights": "<Tensor of (2, 3) on cuda:0>", "sharded": ["<DTensor of (2, 3) on cuda:0>"], "path": "a"}


def test_a_python_without_arguments_has_a_run(home: Home) -> None:
    script = "import sys, gputop\ndel sys.argv\nrun = gputop.init()\nrun.log(loss=1.0)\nprint(run.name)"
    assert home.run(script) == (0, "python\n", "")
    assert home.only_run().state == "finished"


def test_a_notebook_gives_its_name_and_who_started_it_the_command(home: Home) -> None:
    kernel = """
import gputop
run = gputop.init()
print(run.name)
"""
    (home.state / "ipykernel_launcher.py").parent.mkdir(parents=True, exist_ok=True)
    launcher = home.state / "ipykernel_launcher.py"
    launcher.write_text(kernel)
    server = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True)"
    for name, session in (("digits", "/home/user/digits.ipynb"), ("notebook", "")):
        code, out, err = home.run(server, str(launcher), "-f", "kernel.json", JPY_SESSION_NAME=session)
        assert (code, out, err) == (0, f"{name}\n", "")
    with_arguments = (str(launcher), "-f", "kernel.json")
    reader = RunReader(home.runs)
    commands = sorted(run.command or () for run in reader.poll().runs)
    reader.close()
    assert commands == [(sys.executable, str(home.state / f"script{number}.py"), *with_arguments) for number in range(2)]
