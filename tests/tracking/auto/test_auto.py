"""Scripts that know nothing of gputop, with and without ``gputop run``: they behave the same, and are tracked correctly."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gputop.tracking.auto.training.optimizers import WEIGHTS_SPARE, Optimizers
from gputop.tracking.reader.runs import RunReader
from tests.packages import needs
from tests.tracking.kit import REPOSITORY, Home, home, read_all, without_checkout

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

SCRIPTS = Path(__file__).parent / "scripts"
RUN = (sys.executable, "-m", "gputop", "run", "--name", "mine", "--")


def finish(home: Home, command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in the scripts' directory."""
    return home.finish(command, SCRIPTS, **environment)


def both(home: Home, *command: str, **environment: str) -> dict[str, Any]:
    """Run a script without and with tracking, check that it behaves the same, and return what it prints."""
    plain = finish(home, command, **environment)
    assert not home.archives(), "a run without gputop run"
    tracked = finish(home, (*RUN, *command), **environment)
    assert (tracked.returncode, tracked.stdout) == (plain.returncode, plain.stdout), tracked.stderr
    assert plain.returncode == 0, plain.stderr
    assert "gputop" not in without_checkout(tracked.stderr)
    said: dict[str, Any] = json.loads(plain.stdout.splitlines()[-1])
    return said


def series(home: Home, rank: int = 0) -> dict[str, dict[int, float]]:
    """All that was logged, by name and step; a step has one value."""
    (archive,) = [path for path in home.archives() if path.name.startswith(f"rank-{rank:05d}")]
    found = {}
    for name, points in read_all(archive).series.items():
        found[name] = dict(points)
        assert len(found[name]) == len(points), name
    return found


def assert_tracked(home: Home, said: dict[str, Any]) -> dict[str, dict[int, float]]:
    """The steps and the losses are the script's own."""
    found = series(home)
    steps = list(range(said["steps"]))
    assert {name for name in found if name.startswith("loss")} == set(said["losses"])
    for name, losses in said["losses"].items():
        assert list(found[name]) == steps
        assert list(found[name].values()) == pytest.approx(losses, rel=1e-6)
    # Once the pace has settled, not all quick steps are measured in full.
    assert list(found["lr"])[:16] == steps[:16]
    assert set(found["lr"]) <= set(steps)
    run = home.only_run()
    assert (run.name, run.state) == ("mine", "finished")
    (rank,) = run.ranks
    assert rank.step == steps[-1]
    assert min(value for name in found for value in found[name].values() if name.startswith("phase/")) >= 0.0
    return found


def test_several_trainings_in_one_process(home: Home) -> None:
    said = both(home, sys.executable, "folds.py")
    found = series(home)
    assert list(found["loss"]) == list(range(said["steps"])), "steps go on"
    assert list(found["loss"].values()) == pytest.approx(said["losses"]["loss"], rel=1e-6), "no division of an earlier training"
    assert found["training"] == {6: 2.0, 30: 3.0}, "a second phase of one model is none of its own"
    epochs = found["epoch"]
    held = [epochs[max(at for at in epochs if at <= step)] for step in range(39)]
    expected = [0.0] * 3 + [1.0] * 3 + [0.0] * 12 + [1.0] * 12 + [0.0] * 3 + [1.0] * 3 + [0.0] * 3
    assert held == expected, "counted anew in each training and phase"
    assert not {6, 30} & set(found["step_s"]), "what came between two trainings is no step"


def test_no_training_has_the_model_and_the_forward_of_an_earlier_one(home: Home) -> None:
    done = finish(home, (*RUN, sys.executable, "grid.py"))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    sizes = [None if facts["model"] is None else facts["model"]["parameters"] for facts in said]
    assert sizes == [*range(2, 10), None, None, 11, 21, 22], (
        "unknown where a search costs more than the training; each run searches"
    )
    assert all(facts["optimizer"]["type"] == "SGD" for facts in said)
    (found,) = [rank for rank in map(read_all, home.archives()) if "training" in rank.series]
    forward = {step for step, _ in found.series["phase/forward"]}
    assert {10, 23} <= forward
    assert {24, 29}.isdisjoint(forward)
    assert max(forward) > 30, "from the late search on"


def test_many_optimizers_have_a_loss_each_and_the_forward_time_of_all_or_none(home: Home) -> None:
    done = finish(home, (*RUN, sys.executable, "agents.py"))
    assert (done.returncode, done.stderr) == (0, "")
    found = series(home)
    joined, losses = json.loads(done.stdout)
    steps = len(losses[0])
    for number, own in enumerate(losses):
        assert list(found[f"loss/{number}"]) == list(range(steps - len(own), steps))
        assert list(found[f"loss/{number}"].values()) == pytest.approx(own, rel=1e-6)
    assert "loss" not in found
    forward = found["phase/forward"]
    assert {step: value for step, value in forward.items() if value < (0.1 if step <= joined else 0.11)} == {}
    assert {joined - 1, steps - 1} <= set(forward), "from the late searches on"


class Weight:
    pass


class Optimizer:
    def __init__(self, *weights: Weight) -> None:
        self.param_groups = [{"params": list(weights)}]


def test_optimizers_made_for_a_moment_leave_nothing_behind() -> None:
    found, kept = Optimizers(), Weight()
    outer = Optimizer(kept)
    found.number(outer)
    for _ in range(50):
        found.number(Optimizer(Weight(), Weight()))  # as MAML does for each task
        found.number(Optimizer(kept))  # as some do for each epoch
    assert len(found._weights) <= 2 * 3 + WEIGHTS_SPARE
    assert (found.trainings, found.phases) == (1, 1)
    del outer
    again = Optimizer(kept)
    found.number(again)
    assert (found.trainings, found.phases) == (1, 2)
    del again
    found.number(Optimizer(Weight()))
    assert (found.trainings, found.phases) == (2, 3)


def test_a_new_optimizer_rarely_scans_all_weights() -> None:
    found, kept, passes = Optimizers(), [Optimizer(Weight()) for _ in range(1000)], [{}]
    for optimizer in (*kept, *(Optimizer(Weight()) for _ in range(2000))):
        found.number(optimizer)
        if found._weights is not passes[-1]:
            passes.append(found._weights)
    assert len(passes) < 20, "each pass makes a new dictionary"


def test_rollouts_belong_to_the_steps_that_each_have_them(home: Home) -> None:
    said = both(home, sys.executable, "rollouts.py")
    found = series(home)
    assert list(found["loss"].values()) == pytest.approx(said["losses"]["loss"], rel=1e-6)
    assert 30 in found["phase/evaluation"]
    assert 30 not in found["step_s"], "an evaluation between two steps is no step"
    assert len(found["step_s"].keys() - set(range(10))) >= 10, "but for a slow one, now and then, on a busy machine"
    assert all(took >= found["phase/evaluation"][step] for step, took in found["step_s"].items())


def test_a_plain_loop(home: Home, tmp_path: Path) -> None:
    said = both(home, sys.executable, "loop.py", str(tmp_path))
    found = assert_tracked(home, said)
    assert list(found["epoch"].values()) == [0.0] * 5 + [1.0] * 5 + [2.0] * 5
    assert list(found["lr"].values()) == [0.05] * 5 + [0.025] * 5 + [0.0125] * 5
    assert list(found["checkpoint_s"]) == [4, 9, 14]
    # A step that an evaluation or a checkpoint lengthened does not count as a training step.
    assert set(found["step_s"]) == set(range(1, 15)) - {5, 10}
    assert list(found["phase/evaluation"]) == [5, 10]
    # Restarting the loader's worker takes its time whatever came before: that much is known of these steps.
    assert list(found["first_batch_s"]) == [5, 10]
    assert min(found["first_batch_s"].values()) > 0.001
    for step, rate in found["samples_per_s"].items():
        assert rate * found["step_s"][step] == pytest.approx(8.0)
    facts = home.only_run().ranks[0].facts
    assert facts["model"]["class"] == "Sequential"
    assert facts["model"]["wrapper"] is None
    assert facts["model"]["parameters"] == 8 * 16 + 16 + 32 + 16 * 3 + 3
    assert (facts["optimizer"]["type"], facts["optimizer"]["lr"]) == ("AdamW", 0.05)
    assert (facts["loader"]["batch_size"], facts["loader"]["num_workers"]) == (8, 1)
    assert (facts["sampler"]["type"], facts["sampler"]["shuffle"], facts["sampler"]["set_epoch"]) == (
        "RandomSampler",
        True,
        None,
    )
    checkpoint = tmp_path / "model-2.pt"
    assert (facts["checkpoint"]["path"], facts["checkpoint"]["bytes"]) == (str(checkpoint), checkpoint.stat().st_size)
    # A whole module was saved: nothing of gputop is in it, so that it loads where there is none.
    code = "import sys, torch; torch.load(sys.argv[1], weights_only=False)(torch.ones(2, 8)); print('gputop' in sys.modules)"
    assert home.run(code, str(checkpoint))[:2] == (0, "False\n")


def test_closures(home: Home) -> None:
    found = assert_tracked(home, both(home, sys.executable, "lbfgs.py"))
    for step, rate in found["samples_per_s"].items():
        assert rate * found["step_s"][step] == pytest.approx(32.0)


CLOSURES = """
import json, torch
torch.set_num_threads(1)
torch.manual_seed(0)
KIND

model = torch.nn.Linear(4, 1)
optimizer = make(model.parameters())
said = []
for _ in range(12):
    inputs = [torch.randn(8, 4) for _ in range(3)]
    losses = []

    def closure(part=None):
        if part is None:
            optimizer.zero_grad()
        loss = (model(inputs[part or 0]) - 1).square().mean() / (1 if part is None else 3)
        loss.backward()
        losses.append(loss.item())
        return loss

    LOOP
    optimizer.zero_grad()
print(json.dumps(said))
"""
SHARPNESS = """
class Sharpness(torch.optim.Optimizer):
    def __init__(self, weights):
        super().__init__(weights, {"lr": 0.05})
        self.base = torch.optim.SGD(self.param_groups, lr=0.05)

    @torch.no_grad()
    def step(self, closure):
        moves = [0.05 * weight.grad for group in self.param_groups for weight in group["params"]]
        weights = [weight for group in self.param_groups for weight in group["params"]]
        torch._foreach_add_(weights, moves)
        self.zero_grad()
        with torch.enable_grad():
            closure()
        torch._foreach_sub_(weights, moves)
        self.base.step()

make = Sharpness
"""
CALLED_BEFORE = "closure(); optimizer.step(closure); said.append(losses[0])"
CALLED_IN_PARTS = "closure(0); closure(1); optimizer.step(lambda: closure(2)); said.append(sum(losses[:3]))"
LBFGS = "make = lambda weights: torch.optim.LBFGS(weights, lr=0.1, max_iter=3)"
SGD = "make = lambda weights: torch.optim.SGD(weights, lr=0.1)"


@pytest.mark.parametrize(
    ("kind", "loop"),
    [(SHARPNESS, CALLED_BEFORE), (LBFGS, CALLED_BEFORE), (SGD, CALLED_BEFORE), (SGD, CALLED_IN_PARTS)],
    ids=["sharpness-aware", "LBFGS", "SGD", "a part in the step"],
)
def test_a_closure_that_was_called_before_the_step(home: Home, kind: str, loop: str) -> None:
    """In the step it computes the loss again, unless it adds to the gradients that are there."""
    code, out, err = home.run(CLOSURES.replace("KIND", kind).replace("LOOP", loop), command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    found = series(home)
    assert {name for name in found if name.startswith("loss")} == {"loss"}
    assert list(found["loss"].values()) == pytest.approx(json.loads(out), rel=1e-5)


def test_a_gan(home: Home) -> None:
    found = assert_tracked(home, both(home, sys.executable, "gan.py"))
    assert set(found["lr/1"].values()) == {1e-3}
    for step, rate in found["samples_per_s"].items():
        assert rate * found["step_s"][step] == pytest.approx(8.0)


def test_gradient_accumulation(home: Home) -> None:
    found = assert_tracked(home, both(home, sys.executable, "accumulation.py"))
    rows = [round(rate * found["step_s"][step]) for step, rate in found["samples_per_s"].items()]
    assert rows == [24, 12, 24, 24, 12]


def test_every_way_to_accumulate_gives_the_loss_of_the_whole_step(home: Home) -> None:
    said = both(home, sys.executable, "ways.py")
    found = series(home)
    for name, losses in said["losses"].items():
        assert list(found[name].values()) == pytest.approx(losses, rel=1e-5), name
    assert {name for name in found if name.startswith("loss")} == set(said["losses"])


@pytest.mark.parametrize("failing", [3, 30], ids=["of the first steps", "of one that is not looked at whole"])
def test_a_backward_that_failed_and_is_tried_again_counts_once(home: Home, failing: int) -> None:
    code, out, err = home.run(
        f"""
import json, torch, gputop

class Failing(torch.autograd.Function):
    forward = staticmethod(lambda ctx, value: value.clone())

    @staticmethod
    def backward(ctx, gradient):
        raise MemoryError

torch.set_num_threads(1)
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
losses = []

def back(loss):
    loss.backward()
    losses.append(loss.item())

for step in range(40):
    optimizer.zero_grad()
    loss = weight.square().sum() * (step + 1)
    if step == {failing}:
        try:
            back(Failing.apply(loss * 100))
        except MemoryError:
            pass
    back(loss)
    optimizer.step()
print(json.dumps(losses))
"""
    )
    assert code == 0, err
    found = series(home)["loss"]
    assert list(found) == list(range(40))
    assert list(found.values()) == pytest.approx(json.loads(out), rel=1e-6)
    assert home.only_run().ranks[0].facts["gradients"]["accumulation"] == 1


def test_backward_inside_of_backward_is_a_part_of_it(home: Home) -> None:
    found = assert_tracked(home, both(home, sys.executable, "reentrant.py"))
    for step, took in found["phase/backward"].items():
        assert took < found["step_s"].get(step, math.inf)
    gradients = home.only_run().ranks[0].facts["gradients"]
    assert gradients["accumulation"] == 1
    assert gradients["backwards"] <= 20


def test_mixed_precision_with_a_scaler_that_skips_a_step(home: Home) -> None:
    assert_tracked(home, both(home, sys.executable, "amp.py"))


def test_data_parallel_on_the_cpu(home: Home) -> None:
    assert_tracked(home, both(home, sys.executable, "data_parallel.py"))
    model = home.only_run().ranks[0].facts["model"]
    assert (model["class"], model["wrapper"]) == ("Sequential", "DataParallel")


@pytest.mark.real_start("torch.compile counts what it compiles from the start")
def test_a_compiled_model_is_compiled_as_without_gputop_and_does_not_see_how_large_a_collective_is(home: Home) -> None:
    # The script prints how many graphs, breaks and frames torch.compile counted, and which operations a mode saw: both runs
    # print the same.
    assert_tracked(home, both(home, sys.executable, "compiled.py"))
    assert home.only_run().ranks[0].facts["model"]["wrappers"] == ["OptimizedModule"]


@pytest.mark.real_start("torch.compile")
def test_a_compiled_optimizer_step_ends_tracking_with_a_sentence(home: Home) -> None:
    home.warm = True
    plain = finish(home, (sys.executable, "compiled_step.py"))
    home.warm = False
    tracked = finish(home, (*RUN, sys.executable, "compiled_step.py"))
    assert (plain.returncode, tracked.returncode) == (0, 0)
    assert plain.stdout.splitlines()[-1] == tracked.stdout.splitlines()[-1]
    assert "torch.compile hides the optimizer's steps" in tracked.stderr
    losses = json.loads(plain.stdout.splitlines()[-1])["losses"]["loss"]
    found = list(series(home)["loss"].values())
    assert len(found) >= 2, "the steps before the first compiled one; where a graph breaks depends on Python's version"
    assert found == pytest.approx(losses[: len(found)])


def test_a_language_model_without_a_loader(home: Home) -> None:
    found = assert_tracked(home, both(home, sys.executable, "lstm.py"))
    for step, rate in found["tokens_per_s"].items():
        assert rate * found["step_s"][step] == pytest.approx(7 * 6)
    # Time is the first dimension of its batches, so the number of samples is unknown.
    assert "samples_per_s" not in found


def test_ranks_of_torchrun(home: Home) -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    said = both(home, *torchrun, "ddp.py")
    run = home.only_run()
    assert (run.state, [rank.rank for rank in run.ranks]) == ("finished", [0, 1])
    for rank in run.ranks:
        found = series(home, rank.rank)
        assert list(found["loss"].values()) == pytest.approx(said["losses"][f"rank{rank.rank}"])
        assert list(found["loss"]) == list(range(said["steps"]))
        assert rank.facts["model"]["wrapper"] == "DistributedDataParallel"
        assert rank.facts["sampler"] == {
            "type": "DistributedSampler",
            "shuffle": True,
            "set_epoch": True,
            "replicas": 2,
            "rank": rank.rank,
        }


@pytest.mark.real_start("what forks of the script's own inherit")
def test_ranks_that_the_script_forks(home: Home) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    done = finish(home, (*RUN, sys.executable, "forked.py", port))
    assert (done.returncode, done.stdout) == (0, "both done\n"), done.stderr
    run = home.only_run()
    assert [(rank.rank, rank.step) for rank in run.ranks] == [(0, 4), (1, 4)]


EXPLICIT = """
import gputop
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = gputop.init(name="own")
for step in range(0, 60, 10):
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    run.log(step=step, loss=step / 10, lr=7.0)
"""


@pytest.mark.parametrize(
    ("command", "automatic"),
    [((sys.executable,), "1"), ((sys.executable,), "0"), ((*RUN, sys.executable), "1")],
    ids=["import", "switched off", "run"],
)
def test_what_the_script_logs_itself_wins(home: Home, command: tuple[str, ...], automatic: str) -> None:
    code, _, err = home.run(EXPLICIT, command=command, GPUTOP_AUTO=automatic)
    told = "gputop: the name of the run is 'mine', as the command line says; the script says 'own'.\n"
    assert (code, err) == (0, told if command[1:] else "")
    found = series(home)
    assert list(found["loss"].items()) == [(step, step / 10) for step in range(0, 60, 10)]
    assert set(found["lr"].values()) == {7.0}
    if automatic == "0":
        assert set(found) == {"loss", "lr"}
    else:
        assert list(found["phase/backward"]) == list(found["auto/loss"]) == list(range(6))
    assert home.only_run().ranks[0].step == 50


BARE = """
import IMPORTS
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param("gputop, torch", marks=pytest.mark.real_start("gputop waits for the import of torch")),
        "torch, gputop",
    ],
)
def test_the_import_alone_tracks(home: Home, imports: str) -> None:
    assert home.run(BARE.replace("IMPORTS", imports)) == (0, "", "")
    assert list(series(home)["loss"]) == [0, 1, 2, 3]


def test_it_can_be_switched_off(home: Home) -> None:
    assert home.run(BARE.replace("IMPORTS", "gputop, torch"), GPUTOP_AUTO="0") == (0, "", "")
    assert home.run(BARE.replace("IMPORTS", "torch"), command=(*RUN, sys.executable), GPUTOP="0") == (0, "", "")
    assert not home.archives()


def test_a_run_of_the_script_s_own_that_never_logs(home: Home) -> None:
    script = BARE.replace("IMPORTS", "gputop, torch").replace(
        "for step", "gputop.init()\ngputop.watch(model, optimizer)\nfor step"
    )
    assert home.run(script) == (0, "", "")
    assert list(series(home)["auto/loss"]) == [0, 1, 2, 3]


def test_a_script_that_ends_in_an_error_says_so(home: Home) -> None:
    script = BARE.replace("IMPORTS", "torch") + "import sys\nsys.exit(3)\n"
    assert home.run(script, command=(*RUN, sys.executable)) == (3, "", "")
    assert home.run(script.replace("sys.exit(3)", "raise ValueError('no')"), command=(*RUN, sys.executable))[0] == 1
    assert home.run(script.replace("exit(3)", "exit()"), command=(*RUN, sys.executable)) == (0, "", "")
    states = sorted((rank.state, rank.exit_code or 0) for archive in home.archives() for rank in [_rank(archive)])
    assert states == [("failed", 1), ("failed", 3), ("finished", 0)]


def _rank(archive: Path) -> Any:
    from gputop.tracking.reader.rank_log import RankLog

    log = RankLog(archive)
    log.poll(1 << 30, 10, 10)
    log.close()
    return log.rank()


def test_the_repository_is_what_is_tested() -> None:
    import gputop

    assert Path(gputop.__file__).is_relative_to(REPOSITORY)


BY_HAND = """
import json, torch, gputop
torch.set_num_threads(1)
torch.manual_seed(0)
inputs, targets = torch.randn(64, 4), torch.randn(64, 1)
said = {}


def reset_in_place(weights):
    for weight in weights:
        weight.grad.data.zero_()


def reset_to_none(weights):
    for weight in weights:
        weight.grad = None


def train(steps, reset, micro_batches=1):
    torch.manual_seed(1)
    weights = [torch.randn(4, 8, requires_grad=True), torch.zeros(8, requires_grad=True), torch.randn(8, 1, requires_grad=True)]
    losses = []
    for step in range(steps):
        total = 0.0
        for _ in range(micro_batches):
            chosen = torch.randint(64, (16,))
            out = torch.tanh(inputs[chosen] @ weights[0] + weights[1]) @ weights[2]
            loss = torch.nn.functional.mse_loss(out, targets[chosen]) / micro_batches
            loss.backward()
            total += loss.item()
        losses.append(total)
        for weight in weights:
            weight.data -= 0.01 * weight.grad
        reset(weights)
    return losses


SCRIPT
print(json.dumps(said))
"""


def test_a_training_without_an_optimizer(home: Home) -> None:
    cases = """
said["script0"] = train(60, reset_in_place)
for name, arguments in {"none": (30, reset_to_none), "accumulated": (12, reset_in_place, 3)}.items():
    with gputop.init(name=name):
        said[name] = train(*arguments)
"""
    code, out, err = home.run(BY_HAND.replace("SCRIPT", cases))
    assert (code, err) == (0, "")
    said = json.loads(out)
    journals = [read_all(path) for path in home.archives()]
    assert len(journals) == len(said)
    for found in journals:
        name = next(
            value["value"]["name"] for _, _, value in found.events if isinstance(value, dict) and value["type"] == "card"
        )
        points = found.series["loss" if name == "script0" else "auto/loss"]
        assert [step for step, _ in points] == list(range(len(said[name]))), name
        assert [value for _, value in points] == pytest.approx(said[name], rel=1e-5), name
        assert "phase/optimizer" not in found.series, "nobody knows"
        assert len(found.series["step_s"]) > len(points) // 3


def test_backwards_before_an_optimizer_s_first_step_are_not_steps(home: Home) -> None:
    case = """
train(15, reset_to_none)
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = weight.square().sum()
    loss.backward()
    optimizer.step()
"""
    assert home.run(BY_HAND.replace("SCRIPT", case))[0] == 0
    found = series(home)
    assert [round(value, 2) for value in found["loss"].values()] == [4.0, 2.56, 1.64, 1.05]
    assert list(found["phase/optimizer"]) == [0, 1, 2, 3]


@pytest.mark.real_start("the command line above a process that is spawned")
def test_processes_that_torch_spawns_are_ranks_of_one_run_with_the_user_s_command(home: Home) -> None:
    command = (sys.executable, "spawned.py", "--size", "4")
    done = finish(home, (*RUN, *command))
    assert (done.returncode, done.stdout) == (0, "all done --size 4\n"), done.stderr
    reader = RunReader(home.runs)
    runs = sorted(reader.poll().runs, key=lambda run: run.step or 0)
    reader.close()
    assert [[(rank.rank, rank.step, rank.state) for rank in run.ranks] for run in runs] == [
        [(0, 4, "finished"), (1, 4, "finished")],
        [(0, 6, "finished"), (1, 6, "finished")],
    ]
    assert {run.command for run in runs} == {command}


def test_what_a_signal_handler_raises_reaches_the_script_wherever_tracking_is(home: Home) -> None:
    done = finish(home, (*RUN, sys.executable, "timeouts.py"))
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr
    assert int(done.stderr) > 50, "it was raised in this many lines of gputop"


def test_a_wrapper_is_pickled_and_called_like_the_original_function(home: Home) -> None:
    said = both(home, sys.executable, "unchanged.py")
    assert all(value for name, value in said.items() if name.startswith("pickled"))
    assert len(series(home)["loss"]) > 9


@pytest.mark.real_start("the end of Python itself")
def test_the_objects_of_a_script_are_freed_at_its_end_as_without_gputop(home: Home) -> None:
    said = both(home, sys.executable, "last_words.py")
    assert said["weights"]
    assert len(series(home)["loss"]) == 40


KEEPS = """
import os, sys, weakref, torch
from torch import nn

class Pinned:
    pass

net = nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
steps = sys.modules["gputop.tracking.auto.install"].tracked().training
held = [Pinned(), Pinned(), Pinned()]
steps.sites.added, steps.fast.loss, steps.journal._late._pools[4] = held
freed = []
known = [weakref.ref(item, freed.append) for item in held]
del held
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
print("parent" if pid else "child", len(freed), steps.run is None, flush=True)
if not pid:
    os._exit(0)
steps.sites.added, steps.fast.loss = None, None
steps.journal._late._pools.clear()
"""


def test_a_forked_child_frees_nothing_that_may_be_on_a_gpu(home: Home) -> None:
    code, out, err = home.run(KEEPS, command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    assert out.splitlines() == ["child 0 True", "parent 0 False"]


def test_an_optimizer_for_each_of_many_tasks_costs_few_searches_and_leaves_nothing(home: Home) -> None:
    done = finish(home, (*RUN, sys.executable, "tasks.py"))
    assert (done.returncode, done.stderr) == (0, "")
    searches, known = map(int, done.stdout.split())
    assert 8 <= searches < 30
    assert known <= 1, "modules that are gone are forgotten"
    assert len(series(home)["loss"]) == 120


PICKLES = """
import copy, io, pickle, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(30):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    {line}
"""


@pytest.mark.parametrize(
    ("line", "saves"),
    [
        ("pickle.loads(pickle.dumps({'weights': model.weight, 'bias': model.bias.detach()}))", False),
        ("copy.deepcopy(model)", False),
        ("torch.save(model.state_dict(), io.BytesIO())", True),
    ],
    ids=["pickled", "copied", "saved to memory"],
)
def test_a_pickled_tensor_is_no_checkpoint(home: Home, line: str, saves: bool) -> None:
    assert home.run(PICKLES.format(line=line), command=(*RUN, sys.executable), GPUTOP_AUTO="1")[0] == 0
    found = series(home)
    assert len(found["loss"]) == 30
    assert ("checkpoint_s" in found) is saves
    assert ("step_s" in found) is not saves
