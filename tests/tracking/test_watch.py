"""``watch`` against real torch modules; CPU only."""

from __future__ import annotations

import math
import pickle
import sys
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gputop
from gputop.tracking import evidence
from gputop.tracking.journal.writing import gpu_values
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.watch import batch_rows, parts, replica_rows
from tests.fuzzing import examples
from tests.packages import imports
from tests.tracking.kit import Home, home

if TYPE_CHECKING:
    import torch
import_torch = imports("torch")
assert home


@settings(max_examples=examples(300), deadline=None)
@given(batch=st.integers(1, 600), replicas=st.integers(1, 16))
def test_rows_are_those_of_torch_chunk(batch: int, replicas: int) -> None:
    rows = replica_rows(batch, replicas)
    chunks = [len(chunk) for chunk in torch.empty(batch).chunk(replicas)]
    assert [share for share in rows if share] == chunks
    assert len(rows) == replicas


@pytest.mark.parametrize(
    ("batch", "replicas", "rows"),
    [(5, 4, [2, 2, 1, 0]), (9, 8, [2, 2, 2, 2, 1, 0, 0, 0]), (1, 2, [1, 0]), (0, 2, [0, 0]), (4, 1, [4])],
)
def test_rows_of_known_cases(batch: int, replicas: int, rows: list[int]) -> None:
    assert replica_rows(batch, replicas) == rows


def test_no_replica_is_an_error() -> None:
    with pytest.raises(ValueError, match="replica"):
        replica_rows(4, 0)


def scattered(tree: Any, replicas: int) -> int:
    """How many replicas torch's own scatter makes of an argument tree (its recursion, with chunk for the devices' copy)."""

    def scatter(value: Any) -> list[Any]:
        if isinstance(value, torch.Tensor):
            return list(value.chunk(replicas))
        if isinstance(value, tuple | list) and value:
            return list(zip(*map(scatter, value), strict=False))
        if isinstance(value, dict) and value:
            return list(zip(*map(scatter, value.items()), strict=False))
        return [value] * replicas

    return len(scatter(tree))


trees = st.recursive(
    st.integers(1, 40).map(lambda rows: torch.empty(rows, 2)) | st.integers() | st.none() | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(200), deadline=None)
@given(tree=trees, replicas=st.integers(1, 9))
def test_pieces_of_an_argument_tree_are_those_of_scatter(tree: Any, replicas: int) -> None:
    assert parts((tree,), replicas) == scattered((tree,), replicas)


def test_rows_of_an_argument_tree_are_the_first_tensors() -> None:
    assert batch_rows((3, {"x": [None, torch.empty(7, 2)]}, torch.empty(9))) == 7
    assert batch_rows((1, "a")) is None
    assert batch_rows(torch.tensor(1.0)) is None


def engine(module: Any, device_ids: list[int]) -> Any:
    from tests.tracking.engine import Engine

    return Engine(module, device_ids)


def test_a_data_parallel_wrapper_says_how_its_batches_are_split(home: Home) -> None:
    run = gputop.init(name="dp")
    model = engine(torch.nn.Linear(4, 2), [0, 1, 2, 3])
    gputop.watch(model)
    for rows in (8, 8, 5, 5, 10):
        model(torch.randn(rows, 4), scale=2.0).sum().backward()
    model.eval()
    model(torch.randn(1, 4))
    model.train()
    with torch.no_grad():
        model(torch.randn(1, 4))
    expected = {"device_ids": ["0", "1", "2", "3"], "replicas": 4, "module": "Linear"}
    facts = home.only_run().ranks[0].facts
    assert facts["data_parallel"] == {
        **expected,
        "batch_rows": 10,
        "rows_per_device": [3, 3, 3, 1],
        "calls": 5,
        "underused_calls": 2,
        "uneven_calls": 3,
        "output_device": None,
        "dim": 0,
        "tensor_leaves": 1,
        "leaf_sizes": [10],
    }
    model_fact = facts["model"]
    assert (model_fact["class"], model_fact["wrapper"]) == ("Linear", "Engine")
    assert (model_fact["parameter_devices"], model_fact["parameter_dtypes"]) == ({"cpu": 10}, {"float32": 10})
    assert facts["torch"]["version"] == torch.__version__
    assert facts["torch"]["cuda_built"] is (torch.version.cuda is not None)
    assert facts["torch"]["cuda_available"] is torch.cuda.is_available()
    for _ in range(15):
        model(torch.randn(10, 4))
    assert home.only_run().ranks[0].facts["data_parallel"]["calls"] == 20
    run.finish()


def test_every_tensor_of_a_call_is_measured_along_the_wrapper_s_dimension(home: Home) -> None:
    gputop.init(name="dim")
    model = engine(torch.nn.Linear(4, 2), [0, 1])
    model.dim, model.output_device = 1, torch.device("cpu")
    model.forward = lambda batch, mask, scale: model.module(batch).sum() * scale
    gputop.watch(model)
    model(torch.randn(7, 6, 4), [torch.ones(1, 1)], scale=torch.tensor(2.0))
    fact = home.only_run().ranks[0].facts["data_parallel"]
    assert (fact["dim"], fact["output_device"], fact["tensor_leaves"], fact["leaf_sizes"]) == (1, "cpu", 2, [6, 1])
    # A tensor of one row makes one piece, and so one replica for all of them.
    assert (fact["batch_rows"], fact["rows_per_device"], fact["underused_calls"]) == (6, [3, 0], 1)


def test_a_plain_model_has_no_wrapper_and_gets_no_hook(home: Home) -> None:
    gputop.init(name="plain")
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    gputop.watch(model)
    facts = home.only_run().ranks[0].facts
    assert (facts["model"]["wrapper"], facts["model"]["parameter_device"], facts["model"]["parameters"]) == (None, "cpu", 10)
    assert "data_parallel" not in facts
    assert not model._forward_pre_hooks


def test_tensors_on_the_cpu_are_welcome_and_keep_no_graph(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    run = gputop.init(name="tensors")
    loss = (torch.randn(3, requires_grad=True) ** 2).sum()
    run.log(loss=loss, half=torch.tensor(0.5, dtype=torch.bfloat16), whole=torch.tensor([7]), step=torch.tensor(4))
    run.log(vector=torch.zeros(3), meta=torch.empty((), device="meta"))
    rank = home.only_run().ranks[0]
    assert rank.metrics == {"loss": pytest.approx(float(loss.detach())), "half": 0.5, "whole": 7.0}
    assert rank.step == 4
    err = capfd.readouterr().err
    assert "'vector' is a tensor of 3 values" in err
    assert "'meta' is a tensor on meta" in err
    assert "Warning" not in err


class Slow:
    """Replaces a CUDA tensor: its copy arrives when the test says so, and anything that would wait for it fails the test."""

    is_cuda = True

    def __init__(self, value: float, queue: list[Any], dtype: Any = None) -> None:
        self.value, self.queue, self.dtype, self.device = value, queue, dtype or torch.float32, torch.device("cuda", 0)

    def numel(self) -> int:
        return 1

    def is_complex(self) -> bool:
        return False

    def _wait(self, *_: Any) -> Any:
        raise AssertionError("this synchronizes")

    item = cpu = tolist = __float__ = __int__ = __bool__ = __index__ = _wait


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The GPU's queue of copies: those in it have not arrived yet."""
    copies: list[Any] = []
    pools = {dtype: gpu_values.Pool(torch.zeros(gpu_values.SLOTS, dtype=dtype)) for dtype in (torch.float32, torch.float64)}

    class Slot:
        def __init__(self, real: Any) -> None:
            self.real = real

        def copy_(self, value: Slow, non_blocking: bool) -> None:
            assert non_blocking
            copies.append(lambda: self.real.fill_(value.value))

    for pool in pools.values():
        pool.slots = [Slot(real) for real in pool.slots]

    def stage(self: gpu_values.LateValues, name: str, tensor: Slow, step: int, time_ns: int) -> None:
        self._send(pools[tensor.dtype], tensor, name, step, time_ns)

    monkeypatch.setattr(gpu_values.LateValues, "stage", stage)
    return copies


def test_values_on_a_gpu_are_recorded_when_they_land_with_their_own_step(home: Home, queue: list[Any]) -> None:
    run = gputop.init(name="late")
    for step in range(4):
        run.log(loss=Slow(0.5 + step, queue), lr=0.1)
    run.log(loss=Slow(math.nan, queue, torch.float64), step=40)
    run.log(other=1.0)
    assert home.only_run().ranks[0].metrics == {"lr": 0.1, "other": 1.0}, "nothing has landed yet"
    for copy in queue[:3]:
        copy()
    run.log(nudge=2)
    metrics = home.only_run().ranks[0].metrics
    assert metrics["loss"] == 2.5
    for copy in queue[3:]:
        copy()
    run.finish()
    points = {item.metric: item for item in RunReader(home.runs).poll().points}
    assert points["loss"].steps == (0, 1, 2, 3, 40)
    assert points["loss"].values[:4] == (0.5, 1.5, 2.5, 3.5)
    assert math.isnan(points["loss"].values[4])
    assert points["lr"].steps == (0, 1, 2, 3)
    assert points["other"].steps == (41,), "a call whose only value is late counts as a step too"
    assert list(points["loss"].times) == sorted(points["loss"].times)


@pytest.mark.parametrize("first_in", ["inference_mode", "device", "no_grad"])
def test_the_first_value_on_a_gpu_may_be_that_of_an_evaluation(
    home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], first_in: str
) -> None:
    """Values are copied as on a GPU, but within this machine's memory, which nothing here can pin."""
    empty = torch.empty
    with torch.device("meta"):
        empty(1)  # torch lists what makes tensors when it first looks, and that has to be its own function
    monkeypatch.setattr(torch, "empty", lambda *sizes, pin_memory, **options: empty(*sizes, **options))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    values, weight = gpu_values.LateValues(), torch.nn.Parameter(torch.tensor([2.0]))
    with getattr(torch, first_in)(*(["meta"] if first_in == "device" else [])):
        values.stage("val_loss", torch.tensor([0.5], device="cpu"), 1, 10)
    values.stage("loss", weight * 1.5, 2, 20)
    values.stage("loss", (weight * 2.5).sum(), 3, 30)
    assert capfd.readouterr().err == ""
    assert list(values.landed()) == [("val_loss", 0.5, 1, 10), ("loss", 3.0, 2, 20), ("loss", 5.0, 3, 30)]


def test_a_gpu_value_that_cannot_be_staged_affects_no_other(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    run = gputop.init(name="broken")
    run.log(loss=Slow(1.0, []), lr=0.1)  # no such thing as detach(): whatever torch may raise
    assert home.only_run().ranks[0].metrics == {"lr": 0.1}
    assert "'loss' on a GPU cannot be logged" in capfd.readouterr().err


def test_a_gpu_that_is_far_behind_costs_values_and_never_time(
    home: Home, queue: list[Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.tracking.journal.writing.writer.LATE_S", 0.05)
    run = gputop.init(name="behind")
    for step in range(gpu_values.SLOTS + 50):
        run.log(loss=Slow(float(step), queue))
    assert len(queue) == gpu_values.SLOTS
    assert capfd.readouterr().err.count("gputop:") == 1
    for copy in queue[:100]:
        copy()
    run.finish()
    (points,) = RunReader(home.runs).poll().points
    assert points.values == tuple(float(step) for step in range(100))


def test_nothing_is_recorded_about_cuda_before_it_is_initialized() -> None:
    found = evidence.torch_fact()
    assert found is not None
    if not torch.cuda.is_initialized():
        assert found["cuda_available"] is None
        assert evidence.cuda() is None


@pytest.mark.warm
def test_torch_is_noticed_when_it_is_loaded_after_init(home: Home) -> None:
    script = """
import gputop, time
run = gputop.init(name="late")
run.log(loss=1.0)
assert "torch" not in run.facts
import torch
end = time.monotonic() + 30
while "torch" not in run.facts and time.monotonic() < end:
    run.log(loss=1.0)
    time.sleep(0.01)
assert not torch.cuda.is_initialized()
"""
    code, _, err = home.run(script)
    assert (code, err) == (0, "")
    assert home.only_run().ranks[0].facts["torch"]["version"] == torch.__version__


TORCHRUN = """
import math, os, torch, torch.distributed as dist, gputop
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
run = gputop.init(name="ddp", config={"lr": 0.01}, total_steps=12)
run.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(12):
    with run.phase("data"):
        x = torch.randn(8, 4)
    loss = (model(x) - 1).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    run.log(loss=loss, rank=rank)
dist.destroy_process_group()
"""


@pytest.mark.warm
def test_two_ranks_under_torchrun_are_one_run(home: Home) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    code, _, err = home.run(TORCHRUN, command=command, OMP_NUM_THREADS="1")
    assert code == 0, err
    assert "gputop:" not in err
    run = home.only_run()
    assert (run.name, run.state, run.world_size, run.config) == ("ddp", "finished", 2, {"lr": 0.01})
    assert [(rank.rank, rank.local_rank, rank.step, rank.metrics["rank"]) for rank in run.ranks] == [
        (0, 0, 11, 0.0),
        (1, 1, 11, 1.0),
    ]
    for rank in run.ranks:
        assert math.isfinite(rank.metrics["loss"])
        assert rank.facts["model"]["wrapper"] == "DistributedDataParallel"
    assert [path.name for path in home.archives()] == ["rank-00000.gpr", "rank-00001.gpr"]
    assert home.rings() == []
    assert not Path(home.archives()[0].parent / "run.json").exists()


@pytest.mark.warm
def test_data_loader_workers_may_inherit_the_run(home: Home) -> None:
    script = """
import torch, gputop
run = gputop.init(name="workers")
class Data(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index):
        run.log(worker=1.0)
        return torch.tensor(float(index))
for batch in torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=2, multiprocessing_context="fork"):
    run.log(mean=batch.mean())
"""
    code, _, err = home.run(script)
    assert (code, err) == (0, "")
    run = home.only_run()
    assert (run.state, run.ranks[0].step, set(run.ranks[0].metrics)) == ("finished", 7, {"mean"})


def test_ddp_is_not_mistaken_for_data_parallel(tmp_path: Path) -> None:
    """On CUDA, DistributedDataParallel has module, device_ids and dim too; each rank computes its batch as a whole."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(torch.nn.Linear(2, 2))
        wrapped.device_ids = [0]  # as on CUDA
        assert all(hasattr(wrapped, name) for name in ("module", "device_ids", "dim"))
        run = gputop.init(name="ddp")
        gputop.watch(wrapped)
        wrapped.device_ids = None  # so that it can compute here
        wrapped(torch.ones(1, 2))
        facts = dict(run.facts)
        run.finish()
    finally:
        dist.destroy_process_group()
    assert facts["model"]["wrapper"] == "DistributedDataParallel"
    assert "data_parallel" not in facts


def test_a_watched_wrapper_is_copied_and_saved_without_what_counts_its_calls(home: Home) -> None:
    gputop.init(name="copied")
    model = engine(torch.nn.Linear(4, 2), [0, 1])
    gputop.watch(model)
    hooks = [next(iter(each._forward_pre_hooks.values())) for each in (deepcopy(model), pickle.loads(pickle.dumps(model)))]
    assert [hook(model, (), {}) for hook in hooks] == [None, None]
    assert "gputop" not in str(hooks)
    assert home.only_run().ranks[0].facts.get("data_parallel") is None
