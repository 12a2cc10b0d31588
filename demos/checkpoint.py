"""Save and load weights across CPU, GPU, DataParallel and DistributedDataParallel, and meet the two usual errors.

python demos/checkpoint.py

1. A checkpoint written on a GPU does not open on a machine without one: give torch.load a map_location.
2. A wrapper's weights have names that begin with "module.": save those of the module inside it.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
from torch.nn.parallel import DistributedDataParallel

import cpu_data_parallel
import devices
import gputop
import models


def data_parallel(model: nn.Module) -> nn.Module:
    """Wrap in nn.DataParallel, or in its replacement without CUDA."""
    if torch.cuda.is_available():
        return nn.DataParallel(model.to("cuda"))
    return cpu_data_parallel.DataParallel(model, devices.places())


def ddp(model: nn.Module, folder: Path) -> nn.Module:
    """Wrap in DDP; a world of one rank is enough to show what the names look like."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", init_method=f"file://{folder / 'rendezvous'}", rank=0, world_size=1)
    return DistributedDataParallel(model)


def write_as_on_a_gpu(state: dict[str, Tensor], path: Path) -> None:
    """Save weights as a process with a GPU does: each tensor is saved with its location, "cuda:0".

    Without CUDA, the location is patched in: the file is the same as one saved on a GPU.
    """
    if torch.cuda.is_available():
        torch.save({name: tensor.to("cuda:0") for name, tensor in state.items()}, path)
        return
    with mock.patch("torch.serialization.location_tag", return_value="cuda:0"):
        torch.save(state, path)


def load_without_cuda(path: Path, **options: Any) -> Any:
    """Load as on a machine without a GPU."""
    with mock.patch("torch.cuda.is_available", return_value=False), mock.patch("torch.cuda.device_count", return_value=0):
        return torch.load(path, weights_only=True, **options)


def same(first: nn.Module, second: nn.Module) -> bool:
    """Return whether two modules hold equal weights."""
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(one.cpu(), two.cpu()) for one, two in pairs)


def first_line(error: Exception, length: int = 160) -> str:
    """Return the beginning of an error's text."""
    text = " ".join(str(error).split())
    return text if len(text) <= length else text[:length] + " ..."


def error_1(model: nn.Module, folder: Path) -> None:
    """Load a checkpoint that was written on a GPU, on a machine without one."""
    path = folder / "from_gpu.pt"
    write_as_on_a_gpu(model.state_dict(), path)
    print("\n1. Written on cuda:0, read where there is no CUDA")
    try:
        load_without_cuda(path)
    except RuntimeError as error:
        print(f"   torch.load(path)                       RuntimeError: {first_line(error)}")
    fresh = models.build("lenet")
    fresh.load_state_dict(load_without_cuda(path, map_location="cpu"))
    print(f'   torch.load(path, map_location="cpu")   loaded, weights equal: {same(model, fresh)}')


def error_2(wrapped: nn.Module, title: str, folder: Path) -> None:
    """Load a wrapper's checkpoint into an unwrapped module."""
    path, inside = folder / "wrapped.pt", wrapped.module
    assert isinstance(inside, nn.Module)
    torch.save(wrapped.state_dict(), path)
    state = torch.load(path, map_location="cpu", weights_only=True)
    print(f"\n2. {title}: names like {next(iter(state))!r}")
    fresh = models.build("lenet")
    try:
        fresh.load_state_dict(state)
    except RuntimeError as error:
        print(f"   fresh.load_state_dict(state)           RuntimeError: {first_line(error)}")
    # strict=False hides the error: no name matches, nothing is loaded, and nothing is reported.
    fresh.load_state_dict(state, strict=False)
    print(f"   load_state_dict(state, strict=False)   weights equal: {same(inside, fresh)}")
    consume_prefix_in_state_dict_if_present(state, "module.")
    fresh.load_state_dict(state)
    print(f"   without the prefix                     loaded, weights equal: {same(inside, fresh)}")
    torch.save(inside.state_dict(), path)  # better: never save the prefix
    fresh = models.build("lenet")
    fresh.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    print(f"   saved as wrapped.module.state_dict()   loaded, weights equal: {same(inside, fresh)}")


def every_way(folder: Path) -> None:
    """Save from each kind of model and load into each kind: this works if the file has the module's own weights."""
    kinds = ["CPU", "DataParallel", "DDP"]
    if torch.cuda.is_available():
        kinds.insert(1, "GPU")

    def made(kind: str) -> tuple[nn.Module, nn.Module]:
        model = models.build("lenet")
        if kind == "GPU":
            return model.to("cuda"), model
        wrapped = {"CPU": lambda: model, "DataParallel": lambda: data_parallel(model), "DDP": lambda: ddp(model, folder)}[
            kind
        ]()
        return wrapped, model

    print("\n   saved from \\ loaded into " + "".join(f"{kind:>14}" for kind in kinds))
    for source in kinds:
        _, model = made(source)
        path = folder / f"{source}.pt"
        torch.save(model.state_dict(), path)
        found = []
        for target in kinds:
            _, other = made(target)
            other.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
            found.append("ok" if same(model, other) else "differs")
        print(f"   {source:25}" + "".join(f"{word:>14}" for word in found))


def main() -> None:
    """Show both errors and their solutions, then save and load in every direction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the weights (default: 0)")
    parser.add_argument("--name", help="the run's name in gputop")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    run = gputop.init(name=args.name or "checkpoint", config=vars(args))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = models.build("lenet")
        error_1(model, folder)
        error_2(data_parallel(models.build("lenet")), "Written from DataParallel, read without it", folder)
        error_2(ddp(models.build("lenet"), folder), "Written from DistributedDataParallel, read without it", folder)
        every_way(folder)
        with suppress(RuntimeError):
            dist.destroy_process_group()
    run.finish()


if __name__ == "__main__":
    main()
