"""Jobs that Slurm supervises: a real DDP over the two nodes of a real Slurm, from its submission to its end."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.doctor.rules.hosts import uneven
from gputop.errors import GputopError
from gputop.jobs import record, slurm, store
from gputop.programs.asked import printed
from gputop.tracking.reader.runs import RunReader
from tests import REPOSITORY
from tests.hosts.machines.slurm import Slurm, cluster
from tests.hosts.test_shortcuts import programs, stand_in
from tests.tracking.kit import Home, eventually, home

pytestmark = pytest.mark.long
assert home
assert programs
TRAIN_S = 180.0
"""Two torchruns and two ranks import torch."""
TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
assert os.environ["TRAIN_KEY"] == "sesame"
print("rank", rank, "of", dist.get_world_size(), *sys.argv[1:], flush=True)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    if os.environ["SLURMD_NODENAME"] == "n2":
        time.sleep(0.03)
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with cluster(tmp_path_factory.mktemp("slurm")) as found:
        yield found


@pytest.fixture
def there(nodes: Slurm, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a training, from where Slurm's commands lead to the nodes. Runs are kept for each node apart."""
    monkeypatch.setenv("SLURM_CONF", nodes.environment["SLURM_CONF"])
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    folder = tmp_path / "my jobs é"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def command_lines() -> list[bytes]:
    """Those of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return found


def at_work_in(folder: Path) -> list[bytes]:
    """The command lines of the processes whose directory is this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "cwd").readlink() == folder:
                found.append((path / "cmdline").read_bytes())
    return found


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The row of the newest job."""
    capsys.readouterr()
    assert main(["jobs"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "SLURM"
    return rows[0].split()


def test_a_training_over_two_nodes(
    nodes: Slurm, there: Path, home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = shlex.quote(str(there / "state"))
    train = f'GPUTOP_DIR={state}/$SLURMD_NODENAME exec "$@"'
    own = ["sh", "-c", train, "sh", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "train.py", "a b"]
    command = ["env", "TRAIN_KEY=sesame", *own]
    meet = ["--rendezvous", "127.0.0.1"]  # the names of these nodes have no address
    assert main(["launch", "--sbatch=-N2 --begin=now+1hour", "--name", "mine", *meet, "--cwd", str(there), "--", *command]) == 0
    said = capsys.readouterr().out.splitlines()
    job_id, number = said[0].split(":")[0], said[0].split()[3].rstrip(":")
    assert [line.strip() for line in said[1:]] == [
        f"gputop --slurm {number}",
        f"gputop logs -f {job_id}",
        f"gputop stop {job_id}",
    ]
    row = listed(capsys)
    assert (row[:3], row[-3:]) == ([job_id, "waiting", "mine"], [number, "waits:", "BeginTime"])
    assert main(["logs", number]) == 0
    assert capsys.readouterr().out == ""

    nodes.run("scontrol", "update", f"jobid={number}", "starttime=now")
    own = shlex.join(["env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "gputop"])
    remote = f"env GPUTOP_DIR={state}/$SLURMD_NODENAME {own}"
    reach = ["--slurm", number, "--remote", remote]

    def steps(node: str) -> int:
        reader = RunReader(there / "state" / node / "runs")
        try:
            return max((rank.step or 0 for run in reader.poll().runs for rank in run.ranks), default=0)
        finally:
            reader.close()

    eventually(lambda: min(map(steps, ("n1", "n2"))) > 80, "both nodes train", TRAIN_S)
    assert not any(b"TRAIN_KEY" in line for line in command_lines()), "every user of a node sees these"
    row = listed(capsys)
    assert (row[1], row[-3:]) == ("running", [number, "on", "n[1-2]"])
    assert main(["logs", job_id]) == 0
    heard = capsys.readouterr().out.splitlines()
    assert {line.split("]")[0] for line in heard if "of 2 a b" in line} == {"[n1 local rank 0", "[n2 local rank 0"}

    # One run, which the doctor watches as one.
    assert main(["--once", "--virtual", "1", "--no-nccl-ras", *reach]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(row[2], row[-2:]) for row in rows if row[:1] == ["mine"]] == [("2", ["n1,", "n2"])]
    monkeypatch.setattr(uneven, "HOLD_S", 1.0)
    assert main(["--no-nccl-ras", "doctor", "--for", "20s", *reach]) == 1
    said_there = capsys.readouterr().out
    assert "Uneven hosts: the others wait" in said_there
    assert "of each step for n2" in said_there
    (there / "known").mkdir()
    (there / "known" / "n1").symlink_to(there / "state" / "n1")
    without = [word.replace(f"{state}/", f"{shlex.quote(str(there / 'known'))}/") for word in reach]
    assert main(["--no-nccl-ras", "doctor", "--for", "5s", *without]) == 1
    said_there = capsys.readouterr().out
    assert "Run mine over 1 host: n1 rank " in said_there
    assert " of 2 has not been heard from. n2 lists no rank of it." in said_there

    assert main(["stop", job_id]) == 0
    assert capsys.readouterr().out == f"{job_id}: stopped\n"
    assert not any(b"train.py" in line and str(there).encode() in line for line in command_lines())
    assert listed(capsys)[1] == "stopped"
    assert main(["stop", number]) == 2
    assert "has ended: stopped" in capsys.readouterr().err


def test_a_recipe_over_two_nodes(nodes: Slurm, there: Path, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    launch = ["--virtual", "1", "launch", "--sbatch=-N2", "--rendezvous", "127.0.0.1", "--cwd", str(there)]
    assert main([*launch, "single"]) == 2
    assert "single trains on one machine." in capsys.readouterr().err
    assert main([*launch, "--devices", "0", "ddp"]) == 2
    assert "Slurm chooses the GPUs." in capsys.readouterr().err
    assert main([*launch, "ddp", "--epochs", "1000", "--train-samples", "2000", "--batch-size", "8"]) == 0
    printed = capsys.readouterr().out
    assert "\n  gputop --virtual 1 --slurm " in printed
    job_id = printed.split(":")[0]
    reader = RunReader(home.runs)

    def trains() -> bool:
        ranks = {rank.rank: rank.step or 0 for run in reader.poll().runs for rank in run.ranks if run.world_size == 2}
        return set(ranks) == {0, 1} and min(ranks.values()) > 3

    try:
        eventually(trains, "both nodes train", TRAIN_S)
        row = listed(capsys)
        assert (row[:3], row[-2:]) == ([job_id, "running", "ddp"], ["on", "n[1-2]"])
        assert len(at_work_in(there)) > 3, "a launcher and a rank on each node"
        assert main(["logs", job_id]) == 0
        said = capsys.readouterr().out
        assert "[n1 local rank 0" in said
        assert "of 2 trains on virtual GPU 0" in said
    finally:
        reader.close()
        assert main(["stop", job_id]) == 0
    assert not at_work_in(there), "it is stopped, and nothing is left of it"


SQUEUE = r"""printf '%s\n' "$@" > {asked}
row='42|{word}|Res\033]0;x\aources|n[1-2]|2026-11-01T10:00:00|N/A|{made}|{place}'
printf "CLUSTER: x\nnonsense\n7|RUNNING|None|other|N/A|N/A|N/A|/mine|x\n$row\n"
"""


def squeue(home: Home, word: str, made: str = "N/A", place: str = "/mine|x") -> str:
    """A squeue that lists job 42."""
    return SQUEUE.format(asked=shlex.quote(str(home.state / "asked")), word=word, made=made, place=place)


@pytest.fixture
def job(home: Home, monkeypatch: pytest.MonkeyPatch) -> store.Job:
    """A job that Slurm knows as 42, or does not know."""
    monkeypatch.setenv("GPUTOP_DIR", str(home.state))
    job_id = store.new_id()
    directory = home.state / "jobs" / job_id
    (directory / record.NODES).mkdir(parents=True)
    kept = {"id": "42", "cluster": None, "output": str(home.state / "out")}
    spec = {
        "id": job_id,
        "name": "x",
        "argv": ["x"],
        "cwd": "/mine",
        "hostname": "login",
        "created_at": time.time(),
        "slurm": kept,
    }
    record.write_json(directory / record.SPEC, spec)
    return store.find(job_id)


def test_states_that_squeue_reports(job: store.Job, programs: Path, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    asked = home.state / "asked"

    def said(word: str, made: str = "N/A") -> store.Job:
        stand_in(programs, squeue=squeue(home, word, made))
        slurm.refresh(store.list_jobs())
        return store.find(job.id)

    found = said("PENDING")
    assert found.slurm is not None
    assert (found.state, found.slurm.reason, found.slurm.sentence) == ("waiting", "Resources", "42 on n[1-2]")
    assert {f"--user={os.getuid()}", "--all"} <= set(asked.read_text().splitlines())
    assert said("RUNNING").state == "running"
    assert said("A_LATER_WORD").state == "running"
    # A job of the same number that is much older is another one.
    found = said("RUNNING", "2001-01-01T00:00:00")
    assert (found.state, found.problem) == ("lost", "Slurm no longer lists it here, and it has written no exit code")
    # The machine where gputop asked then may have been another cluster's.
    assert said("RUNNING").state == "running"
    stand_in(programs, squeue="true")
    slurm.refresh(store.list_jobs())
    assert store.find(job.id).state == "lost"
    record.write_json(job.directory / record.ENDED, {"exit_code": 3, "ended_at": 1790000000})
    found = store.find(job.id)
    assert (found.state, found.exit_code, found.ended_at) == ("failed", 3, 1790000000)


def test_a_job_that_cannot_be_read_keeps_no_other_from_its_news(job: store.Job, programs: Path, home: Home) -> None:
    deleted = replace(job, id="deleted", directory=job.directory.with_name("deleted"))
    stand_in(programs, squeue=squeue(home, "RUNNING"))
    assert slurm.refresh([deleted, job]) == []
    assert store.find(job.id).state == "running"


@pytest.mark.parametrize(("word", "state"), [("TIMEOUT", "killed"), ("COMPLETED", "finished"), ("OUT_OF_MEMORY", "failed")])
def test_how_slurm_says_that_a_job_ended(job: store.Job, programs: Path, home: Home, word: str, state: str) -> None:
    stand_in(programs, squeue=squeue(home, word))
    assert slurm.refresh([job]) == []
    assert store.find(job.id).state == state
    stand_in(programs, squeue="exit 9")
    assert slurm.refresh(store.list_jobs()) == []  # nobody waits for news of a job that has ended
    stand_in(programs, squeue="true")
    slurm.refresh(store.list_jobs())
    (home.state / "asked").unlink()
    stand_in(programs, squeue=squeue(home, "PENDING"))
    slurm.refresh(store.list_jobs())
    assert not (home.state / "asked").exists(), "it is not asked about an ended job that it has forgotten"
    assert store.find(job.id).state == state


def stopped(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """What ``gputop stop 42`` says."""
    capsys.readouterr()
    code = main(["stop", "42"])
    return code, capsys.readouterr().err


def clock(seconds: float) -> str:
    """A time as squeue writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


OLD_S = 29 * 86_400.0


@pytest.mark.parametrize(
    ("known", "listed"),
    [
        # It was lost 29 days ago, and is not asked about any more: 42 is another job by now.
        ({"word": "RUNNING", "forgotten_at": OLD_S}, "/other|y"),
        ({"word": "RUNNING", "forgotten_at": OLD_S}, None),
        # It was last heard of when it ran.
        ({"word": "RUNNING", "submitted_at": OLD_S, "place": "/mine|x"}, "/other|y"),
        ({"word": "RUNNING"}, "/other|y"),
        # It was never listed, as on another cluster.
        ({}, "/mine|another"),
    ],
)
def test_another_job_of_the_same_number_is_not_ended(
    job: store.Job,
    programs: Path,
    home: Home,
    capsys: pytest.CaptureFixture[str],
    known: dict[str, object],
    listed: str | None,
) -> None:
    made_at = time.time() - OLD_S
    times = {name: time.time() - value for name, value in known.items() if isinstance(value, float)}
    spec = record.read_json(job.directory / record.SPEC) or {}
    record.write_json(job.directory / record.SPEC, spec | {"created_at": made_at})
    record.write_json(job.directory / record.STATUS, {"slurm": known | times})
    canceled = home.state / "canceled"
    stand_in(
        programs,
        squeue=squeue(home, "RUNNING", clock(time.time() - 60), listed) if listed else "true",
        scancel=f"touch {shlex.quote(str(canceled))}",
    )
    code, said = stopped(capsys)
    assert (code, canceled.exists()) == (2, False)
    assert "does not list job 42 here" in said
    stand_in(programs, squeue="exit 9")
    assert (stopped(capsys)[0], canceled.exists()) == (1, False)
    assert store.find(job.id).state == "lost"


def test_a_job_that_slurm_puts_back_in_the_queue_trains_again(
    job: store.Job, programs: Path, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(word: str, made: float) -> str:
        stand_in(programs, squeue=squeue(home, word, clock(made), "/chosen|of its own"))
        slurm.refresh(store.list_jobs())
        return store.find(job.id).state

    now = time.time()
    assert said("RUNNING", now) == "running"
    record.write_json(job.directory / record.ENDED, {"exit_code": 143, "ended_at": int(now)})
    assert store.find(job.id).state == "failed"
    # An open screen sees it, though it has seen its end; and it is submitted anew.
    assert said("PENDING", now + 7200) == "waiting"
    assert said("CONFIGURING", now + 7200) == "starting"
    (job.directory / record.ENDED).unlink()
    assert said("RUNNING", now + 7200) == "running"
    assert said("TIMEOUT", now + 7200) == "killed"
    assert said("PENDING", now + 9000) == "waiting"
    gone = shlex.quote(str(home.state / "gone"))
    listing = squeue(home, "PENDING", clock(now + 9000), "/chosen|of its own")
    ended = squeue(home, "CANCELLED", clock(now + 9000), "/chosen|of its own")
    stand_in(programs, squeue=f"if test -e {gone}; then\n{ended}\nelse\n{listing}\nfi", scancel=f"touch {gone}")
    assert stopped(capsys) == (0, "")
    assert store.find(job.id).state == "stopped"


def test_a_job_that_was_never_listed_has_not_ended(job: store.Job, programs: Path) -> None:
    stand_in(programs, squeue="true")
    assert not slurm.has_ended(job)


def test_a_slurm_that_does_not_answer(
    job: store.Job, programs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "ANSWER_S", 0.3)
    monkeypatch.setenv("PATH", str(programs))
    for script, sentence in (
        ("", "There is no command 'squeue' here."),
        ("/bin/sleep 60 & wait", "squeue does not answer."),
        (
            "printf '\\033[2Jslurm_load_jobs error: \\302\\233Unable to contact\\n' >&2; exit 1",
            "squeue failed: slurm_load_jobs",
        ),
    ):
        if script:
            stand_in(programs, squeue=script)
        assert main(["jobs"]) == 0
        out, err = capsys.readouterr()
        assert out.splitlines()[1].split()[:2] == [job.id, "waiting"]
        assert sentence in err
        assert len(err.splitlines()) == 1
        assert "\x1b" not in err
    stand_in(programs, squeue="echo '42|RUNNING|None|n1|N/A|N/A|N/A|/mine|x'")
    stand_in(programs, scancel="echo 'scancel: error: Kill job error on job id 42: Access/permission denied' >&2; exit 1")
    assert main(["stop", "42"]) == 1
    assert "Access/permission denied" in capsys.readouterr().err
    assert not store.find(job.id).stop_asked
    assert main(["jobs", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["slurm"]["id"], told["slurm"]["nodes"]) == ("42", "n1")


def test_what_a_program_prints_is_bounded(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(programs, talks="exec yes", echoes="cat; exit 0", closes="exec 0<&-; echo done")
    with pytest.raises(GputopError, match="prints more than 16 MiB"):
        printed(["talks"], "x", 30.0)
    assert len(printed(["echoes"], "x", 30.0, sent=b"line\n" * 100_000)) == 100_000
    assert printed(["closes"], "x", 30.0, sent=b"x" * 1_000_000) == ["done"]
