"""gputop doctor --log: real errors of torch, in files, on standard input and in a job; --before and --watch as a program."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gputop.doctor.findings.finding import CONFIDENCE_VALUES
from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.scan import LogScan
from tests import REPOSITORY, samples
from tests.doctor.logs.test_logs import GLOO, torchrun_summary, traceback
from tests.doctor.tracked import ddp
from tests.packages import needs
from tests.patience import DEADLINE_S
from tests.tracking.kit import Home, home

assert home

GPUTOP = (sys.executable, "-m", "gputop")
FIELDS = {
    *("id", "severity", "confidence", "title", "evidence", "cause", "fix", "refuted_by", "devices", "pids", "run"),
    *("suppressed_by", "began_at", "confidence_value", "process_run"),
}


def doctor(*arguments: str, given: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*GPUTOP, "doctor", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    log = tmp_path / "train.log"
    log.write_text(
        traceback(GLOO, "[rank0]: ") + traceback("ValueError: no", "[rank1]: ", 34) + torchrun_summary(1, others=[0])
    )
    return log


def test_a_file_is_explained_for_people(failed: Path) -> None:
    said = doctor("--log", str(failed))
    assert said.returncode == 1, said.stderr
    assert "Rank 1 failed with ValueError at train.py:34 (main)" in said.stdout
    assert "the first failure that torchrun observed: rank 1" in said.stdout
    assert f"lines of {failed.name}." in said.stdout


def test_and_for_programs(failed: Path) -> None:
    said = doctor("--log", str(failed), "--json")
    data = json.loads(said.stdout)
    assert said.returncode == 1
    assert set(data) == {"schema_version", "findings", "suppressed", "not_judged", "undecided", "verdict"}
    assert set(data["findings"][0]) == FIELDS
    assert data["findings"][0]["confidence_value"] == CONFIDENCE_VALUES["certain"]


def test_a_named_pipe_that_nobody_writes_to_is_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = doctor("--log", str(pipe))
    assert (said.returncode, said.stdout) == (2, "")
    assert f"{pipe} is a named pipe that no program has open to write. Start that program first" in " ".join(
        said.stderr.split()
    )


@pytest.mark.parametrize(
    "script",
    [
        '{doctor} --log <(sleep 1; cat "$1")',
        'mkfifo p; (sleep 1; exec 3>p; sleep 7; cat "$1" >&3) & {doctor} --log p',
        'cat "$1" | {doctor} --log /dev/stdin',
    ],
    ids=["process substitution", "named pipe", "/dev/stdin"],
)
def test_a_pipe_is_read_to_its_end(failed: Path, tmp_path: Path, script: str) -> None:
    words = script.format(doctor=shlex.join([*GPUTOP, "doctor"]))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    said = subprocess.run(
        ["bash", "-c", words, "bash", str(failed)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
        timeout=DEADLINE_S,
    )
    assert (said.returncode, said.stderr) == (1, "")
    assert "Rank 1 failed with ValueError at train.py:34 (main)" in said.stdout


def test_standard_input_and_a_log_without_an_error(failed: Path, tmp_path: Path) -> None:
    assert "Rank 1 failed" in doctor("--log", "-", given=failed.read_text()).stdout
    fine = tmp_path / "fine.log"
    fine.write_text("step 1 loss 0.4\nstep 2 loss 0.3\n")
    said = doctor("--log", str(fine))
    assert (said.returncode, said.stdout) == (0, "No known error and no exception. Read 2 lines of fine.log.\n")


def test_several_files_of_torchrun_s_layout_are_one_run(tmp_path: Path) -> None:
    for rank, error in enumerate((GLOO, "ValueError: no")):
        log = tmp_path / "none_x" / "attempt_0" / str(rank) / "stderr.log"
        log.parent.mkdir(parents=True)
        log.write_text(traceback(error))
    said = doctor("--log", *map(str, sorted(tmp_path.rglob("stderr.log"))), "--json")
    finding = json.loads(said.stdout)["findings"][0]
    assert finding["title"] == "Rank 1 failed with ValueError at train.py:41 (main)"
    assert "attempt_0/1/stderr.log" in finding["evidence"][0]["source"]


def test_what_cannot_be_read_is_wrong_usage(tmp_path: Path, failed: Path) -> None:
    for wrong in (("--log", str(tmp_path / "none.log")), ("--log", str(tmp_path)), ("--log", str(failed), "--watch", "1")):
        said = doctor(*wrong)
        assert said.returncode == 2
        assert said.stderr.startswith("gputop: ")
        assert "Traceback" not in said.stderr


def test_a_run_that_does_not_exist_is_wrong_usage_and_not_a_clean_bill(tmp_path: Path) -> None:
    recording = tmp_path / "machine.gputop"
    recording.write_text(samples.snapshot().to_json() + "\n")
    none = "gputop: There is no run 'nosuch'. gputop runs lists them."
    recorded = "gputop: There is no run 'nosuch' in this recording. Its runs: resnet18-ddp."
    for words, told in (
        (("--virtual", "1"), none),
        (("--virtual", "1", "--watch", "1s"), none),
        (("--virtual", "1", "--json"), none),
        (("--replay", str(recording)), recorded),
    ):
        said = doctor("--run", "nosuch", *words)
        assert (said.returncode, said.stdout) == (2, "")
        assert " ".join(said.stderr.split()) == told
    assert doctor("--run", "resnet18-ddp", "--replay", str(recording)).returncode in (0, 1)


def test_a_run_that_is_no_longer_watched_differs_from_one_that_never_was() -> None:
    script = "import gputop\nfor number in range(22):\n    gputop.init(name=f'n{number}').finish()"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=180)
    assert doctor("--virtual", "1", "--for", "1s", "--run", "n21").returncode == 0
    said = doctor("--virtual", "1", "--for", "1s", "--run", "n0")
    assert said.returncode == 2
    assert "The run 'n0' ended too long ago" in said.stderr


def test_the_machine_is_checked_before_a_run() -> None:
    """Without a driver, and with a Python on PATH that has no torch."""
    bin_ = Path(os.environ["HOME"]) / "bin"
    bin_.mkdir()
    (bin_ / "python").symlink_to("/bin/false")
    said = doctor("--before", "--json", PATH=str(bin_))
    data = json.loads(said.stdout)
    rows = {row["name"]: row for row in data["checked"]}
    assert {"driver", "torch", "/dev/shm", "CPU", "open files", "locked memory", "NUMA"} <= set(rows)
    if rows["driver"]["state"] == "problem":
        assert said.returncode == 3
        assert any(finding["id"] in ("A12", "I10") for finding in data["findings"])
    assert rows["torch"]["state"] == "unknown"
    assert "exit code 1" in rows["torch"]["text"]


def test_a_missing_gpu_is_a_finding_only_of_commands_that_ask_about_it() -> None:
    """In the same words; with a tracked run on it as well, whose own findings keep their exit code."""
    bin_ = Path(os.environ["HOME"]) / "bin"
    bin_.mkdir()
    (bin_ / "python").symlink_to("/bin/false")
    before = json.loads(doctor("--before", "--json", PATH=str(bin_)).stdout)
    wanted = [finding for finding in before["findings"] if finding["evidence"][0]["source"] == "NVML"]
    if not any(row["name"] == "driver" and row["state"] == "problem" for row in before["checked"]):
        pytest.skip("this machine has a driver")
    assert [finding["id"] for finding in wanted] in (["A12"], ["I10"])

    def findings_of(said: subprocess.CompletedProcess[str]) -> list[object]:
        found: list[object] = json.loads(said.stdout)["findings"]
        assert said.returncode == 3 or found != wanted  # something else may be wrong on the machine that runs this
        return found

    assert wanted[0] in findings_of(doctor("--json", PATH=str(bin_)))
    assert wanted[0]["title"] in doctor(PATH=str(bin_)).stdout
    assert wanted[0] not in json.loads(doctor("--virtual", "1", "--for", "1s", "--json").stdout)["findings"]
    script = "import gputop, subprocess, sys\ngputop.init(name='mine')\nsys.exit(subprocess.run(sys.argv[1:]).returncode)"
    command = [sys.executable, "-c", script, *GPUTOP, "doctor", "--for", "1s", "--json"]
    beside = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert wanted[0] in findings_of(beside)
    of_run = subprocess.run([*command, "--run", "mine"], capture_output=True, text=True, timeout=180, check=False)
    assert wanted[0] not in json.loads(of_run.stdout)["findings"]


@pytest.mark.parametrize("virtual", [("--virtual", "2"), ()])
def test_watch_prints_at_once_and_ends_with_ctrl_c(virtual: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [*GPUTOP, "doctor", *virtual, "--watch", "300ms", "-i", "200ms", "--json"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())["findings"]
        process.send_signal(signal.SIGINT)
        code = process.wait(DEADLINE_S)
        if virtual or not any(finding["evidence"][0]["source"] == "NVML" for finding in found):
            assert code in (0, 1)
        else:
            assert code == 3 or len(found) > 1
    finally:
        process.kill()
        process.wait()


# Errors that torch really makes here.

REAL = """
import io, os, sys, traceback, warnings
import torch
from torch import nn
from torch.utils.data import DataLoader, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

def saved_on_cuda():
    buffer, tag = io.BytesIO(), torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: "cuda:3"
    torch.save(torch.ones(2), buffer)
    torch.serialization.location_tag = tag
    buffer.seek(0)
    torch.load(buffer)

class Killed(torch.utils.data.Dataset):
    def __len__(self): return 2
    def __getitem__(self, index): os.kill(os.getpid(), 9)

class Net(nn.Sequential):
    def __init__(self): super().__init__(nn.Linear(2, 2))

def prefix():
    net = Net()
    net.load_state_dict({"module." + key: value for key, value in net.state_dict().items()})

def nan():
    with torch.autograd.detect_anomaly():
        (torch.sqrt(torch.zeros(1, requires_grad=True)) * 0).sum().backward()

def forked():
    torch.cuda._is_in_bad_fork = lambda: True
    torch.cuda._lazy_init()

linear = nn.Linear(2, 2)
CASES = {
    "cuda_deser_unavailable": saved_on_cuda,
    "not_compiled_cuda": lambda: torch.zeros(1).cuda(),
    "bad_device_string": lambda: torch.device("gpu"),
    "dp_scatter_scalar": lambda: torch.tensor(1.0).chunk(2),
    "dp_kwargs_mismatch": lambda: nn.parallel.parallel_apply([linear] * 2, [(1,)] * 2, [{}], [0, 1]),
    "module_prefix": prefix,
    "sampler_excl": lambda: DataLoader([1, 2], sampler=SequentialSampler([1, 2]), shuffle=True),
    "env_rdzv_missing": lambda: torch.distributed.init_process_group("gloo"),
    "pg_not_init": lambda: DistributedSampler([1, 2]),
    "pin_no_accel": lambda: next(iter(DataLoader([1, 2], pin_memory=True))),
    "too_many_workers": lambda: DataLoader([1, 2], num_workers=64),
    "worker_killed": lambda: list(DataLoader(Killed(), num_workers=1)),
    "nan_loss": nan,
    "fork_cuda": forked,
}
if torch.cuda.is_available() or torch.version.cuda:
    for name in ("cuda_deser_unavailable", "not_compiled_cuda", "pin_no_accel"):
        del CASES[name]
warnings.simplefilter("always")
for name, case in CASES.items():
    sys.stderr.write(f"\\n##### {name}\\n")
    sys.stderr.flush()
    try:
        case()
    except BaseException:
        traceback.print_exc()
"""


@needs("torch")
@pytest.mark.warm
def test_errors_that_torch_makes_here_are_known(home: Home, tmp_path: Path) -> None:
    script = tmp_path / "real.py"
    script.write_text(textwrap.dedent(REAL))
    said = home.finish((sys.executable, str(script)), tmp_path).stderr
    cases = dict(part.partition("\n")[::2] for part in said.split("##### ")[1:])
    assert len(cases) >= 11
    for name, text in cases.items():
        scan = LogScan(name)
        scan.feed(text.encode())
        scan.end()
        explanation = explain([scan])
        assert explanation.findings, text
        assert name in {item.pattern.id for item in scan.observations if item.pattern}, text
        if "Traceback" in text:
            assert explanation.root is not None
            assert explanation.root.pattern is not None
            assert explanation.root.pattern.id == name
            assert explanation.root.where is not None
            assert explanation.root.where.startswith("real.py:")


RANKS = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
if rank == 1:
    raise ValueError("the real error")
for _ in range(200):
    dist.all_reduce(torch.ones(2))
"""


@needs("torch")
@pytest.mark.parametrize("launcher", ["torch.distributed.run", "torch.distributed.launch"])
def test_a_rank_that_fails_under_torchrun_is_the_root(tmp_path: Path, launcher: str) -> None:
    script = tmp_path / "ranks.py"
    if launcher.endswith("launch"):
        script.write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    else:
        script.write_text(RANKS)
    command = [sys.executable, "-m", launcher, "--standalone", "--nproc-per-node=2", str(script)]
    log = tmp_path / "out.log"
    with log.open("wb") as out:
        subprocess.run(command, stdout=out, stderr=out, timeout=100, check=False)
    findings = json.loads(doctor("--log", str(log), "--json").stdout)["findings"]
    if launcher.endswith("launch"):
        assert findings[0]["id"] == "A17"
    else:
        assert findings[0]["title"] == "Rank 1 failed with ValueError at ranks.py:7 (<module>)", log.read_text()


def test_printed_metrics_of_a_log_without_an_error_are_judged(tmp_path: Path) -> None:
    slow = tmp_path / "slow.log"
    slow.write_text("".join(f"Epoch: [0][{n:4d}/5005]  Time 2.010  Data 1.612  Loss {7 - n / 900:.4f}\n" for n in range(40)))
    said = doctor("--log", str(slow))
    assert said.returncode == 1
    assert "The run waits for data: 80% of each step, by its own numbers" in said.stdout
    assert "[its output: data_time, time]" in " ".join(said.stdout.split())
    lost = tmp_path / "lost.log"
    lost.write_text("".join(f"step {n} loss {'nan' if n > 20 else 2.1 - n / 100}\n" for n in range(40)))
    data = json.loads(doctor("--log", str(lost), "--json").stdout)
    assert [item["id"] for item in data["findings"]] == ["J01"]
    assert data["verdict"] == "problem"


def test_an_error_comes_before_the_printed_metrics_of_a_log(failed: Path, tmp_path: Path) -> None:
    both = tmp_path / "both.log"
    both.write_text("".join(f"step {n} loss {'nan' if n > 20 else 2.1 - n / 100}\n" for n in range(40)) + failed.read_text())
    data = json.loads(doctor("--log", str(both), "--json").stdout)
    assert [item["id"] for item in data["findings"]][:2] == ["exception", "J01"]


def test_information_is_not_the_headline_of_a_log_with_a_problem(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    omp = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    log.write_text(omp + "".join(f"step {n} loss {'nan' if n > 20 else 2.1 - n / 100}\n" for n in range(40)))
    data = json.loads(doctor("--log", str(log), "--json").stdout)
    assert [item["id"] for item in data["findings"]] == ["J01", "D04"]


@pytest.mark.parametrize(("device", "level", "code"), [(None, "possible", 0), ("cuda:0", "likely", 1)])
def test_a_finding_that_is_only_possible_is_shown_and_is_no_problem(
    device: str | None, level: str, code: int, tmp_path: Path
) -> None:
    """Scripts stopped at healthy runs: the exit code was 1 for anything that might be."""
    own = {"model": {"parameter_device": device}, "ddp": {"communication_s": 0.14, "overlap_s": 0.03}}
    recording = tmp_path / "machine.gputop"
    shots = (ddp(second, each=lambda number, step: own) for second in range(25))
    recording.write_text("".join(f"{shot.to_json()}\n" for shot in shots))
    said = doctor("--replay", str(recording))
    assert (said.returncode, f"E06 · warning, {level}" in said.stdout) == (code, True), said.stdout + said.stderr
    data = json.loads(doctor("--replay", str(recording), "--json").stdout)
    assert (data["verdict"], data["undecided"]) == ({0: "possible", 1: "problem"}[code], [])
