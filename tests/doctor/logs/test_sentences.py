"""Sentences of findings that would be untrue for one form of a text: each form has its own."""

from __future__ import annotations

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.meaning.explain import explain
from tests.doctor.logs.test_logs import scan, traceback

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30))
LATER = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30, 60))


def findings(text: str) -> tuple[Finding, ...]:
    return explain([scan(text)]).findings


def said(text: str) -> str:
    first = findings(text)[0]
    return "\n".join((first.title, first.cause, first.fix))


def sizes(saved: str, own: str, name: str = "decoder.layers.3.fc1.weight") -> str:
    return (
        "RuntimeError: Error(s) in loading state_dict for Speech2Text:\n"
        f"\tsize mismatch for {name}: copying a param with shape torch.Size([{saved}]) from checkpoint, "
        f"the shape in current model is torch.Size([{own}]).\n"
    )


@pytest.mark.parametrize(("saved", "own"), [("0", "1024, 256"), ("0", "32000"), ("1024, 256", "0")])
def test_a_parameter_without_elements_is_one_that_is_spread_over_the_ranks(saved: str, own: str) -> None:
    for log in (sizes(saved, own), traceback(sizes(saved, own))):
        first = findings(log)[0]
        assert first.id == "shape_differs"
        assert first.confidence == "likely"
        assert "different sizes" not in first.cause
        assert "strict=False" not in first.fix
        assert ("zero_to_fp32.py" if saved == "0" else "GatheredParameters") in first.fix


def test_other_sizes_of_a_checkpoint_are_those_of_another_model() -> None:
    for saved, own in (("40, 64", "7, 64"), ("10", "20"), ("100", "7"), ("", "1")):
        first = findings(sizes(saved, own))[0]
        assert first.confidence == "certain"
        assert "different sizes" in first.cause


@pytest.mark.parametrize(
    ("line", "title"),
    [
        (
            "Accelerate launch command: error: argument --num_machines/--num-machines: invalid int value: 'two'",
            "accelerate launch refuses --num_machines/--num-machines: invalid int value: 'two'",
        ),
        (
            "Accelerate launch command: error: the following arguments are required: training_script",
            "accelerate launch needs training_script",
        ),
        ("torchrun: error: unrecognized arguments: --nproc", "torchrun does not know --nproc"),
        ("deepspeed: error: argument --num_gpus: expected one argument", "deepspeed refuses --num_gpus: expected one argument"),
    ],
)
def test_a_launcher_refuses_its_own_options(line: str, title: str) -> None:
    first = findings(f"usage: x [-h]\n{line}\n")[0]
    assert first.title == title
    assert "The launcher does not accept" in first.cause
    assert title.partition(" ")[0] in first.fix
    went_on = findings(f"{STEPS}the sweep met '{line}', and skipped it\n{LATER}")
    assert [item.id for item in went_on if item.confidence != "possible"] == []


def test_a_script_refuses_its_own_options() -> None:
    first = findings("usage: torchrun_me.py [-h]\ntorchrun_me.py: error: argument --lr: expected one argument\n")[0]
    assert "The script does not accept" in first.cause


@pytest.mark.parametrize(
    ("line", "title"),
    [
        (
            "[W1121 04:26:52.1 socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29612 (errno: 98 - Address "
            "already in use).",
            "The port for the rendezvous is taken (29612)",
        ),
        (
            "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed "
            "to bind to ?UNKNOWN?:29612 (errno: 98 - Address already in use).",
            "The port for the rendezvous is taken (29612)",
        ),
        (
            "RuntimeError: Address already in use (os error 98)",
            "The port on which a server wants to listen is taken",
        ),
        (
            "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8265): address already in use",
            "The port on which a server wants to listen is taken (8265)",
        ),
        (
            "Error: listen tcp 127.0.0.1:9400: bind: address already in use",
            "The port on which a server wants to listen is taken (9400)",
        ),
        ("RuntimeError: Address already in use", "The port for the rendezvous, or that of another server, is taken"),
    ],
)
def test_a_port_that_is_taken_is_the_rendezvous_s_only_if_torch_says_so(line: str, title: str) -> None:
    first = findings(f"{line}\n")[0]
    assert (first.id, first.title) == ("G03", title)
    assert ("torchrun" in first.fix) == ("rendezvous" in title)
    number = title.rpartition("(")[2].removesuffix(")")
    assert not number.isdigit() or f"sport = :{number}" in first.fix


def test_a_second_launcher_on_a_host_joins_the_store_that_holds_the_port() -> None:
    warning = (
        "[W1121 04:26:52.1 socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29612 "
        "(errno: 98 - Address already in use).\n"
    )
    assert [item.confidence for item in findings(warning)] == ["likely"]
    assert [item.confidence for item in findings(f"{warning}{STEPS}")] == ["possible"]


def test_the_job_that_slurm_s_daemon_names_is_the_one_to_ask_about() -> None:
    log = (
        "slurmstepd-gn07: error: Detected 3 oom-kill event(s) in StepId=771402.0. Some of your processes may have been killed "
        "by the cgroup out-of-memory handler.\nsrun: error: gn07: task 2: Out Of Memory\n"
    )
    assert findings(log)[0].id == "H05"
    assert "sacct -j 771402 " in findings(log)[0].fix
    none = findings("slurmstepd-gn07: error: Detected 0 oom-kill event(s) in StepId=771402.0.\n")
    assert "H05" not in [item.id for item in none]


GONE = "RuntimeError: DataLoader worker (pid(s) 611, 640) exited unexpectedly"
BUS = "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"


def test_workers_that_are_gone_are_counted() -> None:
    first = findings(traceback(GONE))[0]
    assert (first.id, first.title) == ("H05", "DataLoader workers 611, 640 exited unexpectedly")
    assert first.cause.startswith("They were killed")
    assert findings(traceback(GONE.replace("611, ", "")))[0].title == "DataLoader worker 640 exited unexpectedly"


def test_a_bus_error_beside_them_says_why_workers_are_gone() -> None:
    for log in (traceback(GONE) + BUS, BUS + traceback(GONE), traceback(GONE, "[rank1]: ") + BUS):
        assert [item.id for item in findings(log)] == ["D08"]
    far = traceback(GONE) + "".join(f"waiting for node {number}\n" for number in range(400)) + BUS
    assert findings(far)[0].id == "H05"


def test_ranks_on_one_gpu_are_told_where_horovod_keeps_the_local_rank() -> None:
    log = (
        "[1,3]<stderr>:n4:91:99 [0] init.cc:525 NCCL WARN Duplicate GPU detected : rank 3 and rank 1 both on CUDA device 4000\n"
    )
    assert findings(log)[0].id == "A07"
    assert "hvd.local_rank()" in findings(log)[0].fix


LIBRARY = '  File "/opt/lib/python3.11/subprocess.py", line 413, in check_call\n    raise CalledProcessError(retcode, cmd)\n'
OWN = '  File "/home/lin/prepare.py", line 12, in main\n    load()\n'
BEGIN = "Traceback (most recent call last):\n"


@pytest.mark.parametrize(
    ("log", "fix"),
    [
        (f"{BEGIN}{OWN}{LIBRARY}ValueError: the shard has no samples\n", "# read prepare.py:12 (main); the traceback is above"),
        (f"{BEGIN}{LIBRARY}ValueError: the shard has no samples\n", "all of its lines are those of libraries"),
        ("ValueError: the shard has no samples\n", "and the lines before it"),
    ],
)
def test_a_traceback_is_named_only_if_there_is_one(log: str, fix: str) -> None:
    first = findings(log)[0]
    assert first.id == "exception"
    assert fix in first.fix
    assert ("traceback" in first.fix) == ("Traceback" in log)


@pytest.mark.parametrize("line", ["/scratch/lin/runs", "lin@n3:~$ nvidia-smi", "[INFO]: job ended"])
def test_what_the_shell_prints_next_is_no_part_of_the_message(line: str) -> None:
    assert findings(f"{BEGIN}{OWN}KeyError: 'speaker'\n{line}\n")[0].cause == "KeyError: 'speaker'."


def test_a_path_that_a_message_announces_is_part_of_it() -> None:
    log = f"{BEGIN}{OWN}LookupError: none of these holds the weights:\n/scratch/lin/a\n"
    assert findings(log)[0].cause.endswith("weights: /scratch/lin/a.")


def test_a_long_message_is_cut_between_words() -> None:
    words = " ".join(f"reason{number}" for number in range(90))
    cause = findings(f"{BEGIN}{OWN}RuntimeError: {words}\n")[0].cause
    assert cause.endswith(" …")
    assert cause.split()[-2] in words.split()


CALLED = "subprocess.CalledProcessError: Command '{}' returned non-zero exit status {}.\n"


def test_ssh_that_fails_is_a_host_that_is_not_reached() -> None:
    first = findings(f"{BEGIN}{LIBRARY}{CALLED.format('ssh -o PasswordAuthentication=no gpu-b2 hostname', 255)}")[0]
    assert (first.id, first.confidence) == ("G03", "likely")
    assert "ssh gpu-b2 hostname" in first.fix
    for command, code in (("ssh gpu-b2 nvidia-smi", 1), ("rsync -a x gpu-b2:", 255), ("python train.py", 255)):
        other = findings(f"{BEGIN}{LIBRARY}{CALLED.format(command, code)}")[0]
        assert other.id == "exception"


PADDLE = (
    "LAUNCH INFO 2024-05-06 07:08:09,100 Pod failed\nLAUNCH ERROR 2024-05-06 07:08:09,101 Container failed !!!\n"
    "Container rank 3 status failed cmd ['/usr/bin/python3', '-u', 'tools/train.py'] code 1 log logs/workerlog.3\n"
)


def test_paddle_s_launcher_names_the_log_of_the_rank() -> None:
    first = findings(STEPS + PADDLE)[0]
    assert (first.id, first.title) == ("G04", "Rank 3 of Paddle's launcher ended with exit code 1")
    assert "logs/workerlog.3" in first.fix
    assert findings(PADDLE + traceback("KeyError: 'speaker'"))[0].id == "exception", "the launcher shows the rank's log"


RAY = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: Trainer\n"
    "\tpid: 4711\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
    "Worker unexpectedly exits with a connection error code 2. End of file.\n"
)


def test_a_worker_of_ray_that_died_left_its_words_elsewhere() -> None:
    first = findings(STEPS + traceback(RAY))[0]
    assert (first.id, first.title) == ("G04", "A worker of Ray died (SYSTEM_ERROR)")
    assert "/tmp/ray/session_latest/logs" in first.fix
    assert findings(traceback("MemoryError: no room") + traceback(RAY))[0].id == "exception"
    went_on = findings(f"{STEPS}{traceback(RAY)}restarting the worker, going on without it\n{LATER}")
    assert {item.confidence for item in went_on} == {"possible"}


@pytest.mark.parametrize(("how", "name"), [("Aborted                 (core dumped)", "SIGABRT"), ("Hangup", "SIGHUP")])
def test_a_shell_s_report_is_told_by_the_words_that_matter(how: str, name: str) -> None:
    line = f"/scratch/{'deep/' * 16}sweep.sh: line 52: 98765 {how} python train.py --width 9\n"
    first = findings(STEPS + line)[0]
    assert first.title == f"The log ends with: sweep.sh: line 52: {' '.join(how.split())}"
    assert name in first.cause
    assert findings(f"{STEPS}{line}{LATER}") == ()
