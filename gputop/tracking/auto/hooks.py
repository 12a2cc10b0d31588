"""The hooks into torch: backward, optimizer steps, GradScaler and torch.save; ``loader_hooks`` has those into the DataLoader.

Uses no module hooks: a global one slows every layer and makes torch.compile warn, and one on a module would be pickled with
it. Each wrapper calls the original exactly once, passes on what it returns or raises, and does nothing else when tracking
is off, on a thread other than the one that trains, or while torch.compile traces.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from operator import attrgetter
from threading import get_ident
from time import perf_counter
from typing import Any

from gputop.facts.measured import Checkpoint
from gputop.tracking.auto import garbage_collections
from gputop.tracking.auto.backwards import Backwards
from gputop.tracking.auto.loader_hooks import patch_loader
from gputop.tracking.auto.losses import packed
from gputop.tracking.auto.losses.reduction import divided_by, is_divided_by, read, read_mean, rule, step_loss
from gputop.tracking.auto.losses.site import Site
from gputop.tracking.auto.losses.sites import Sites
from gputop.tracking.auto.losses.user_code import UserCode, accelerate_divides_by, columns_of, label
from gputop.tracking.auto.losses.values import plain_value_of, value_of
from gputop.tracking.auto.other_threads import OtherThreads
from gputop.tracking.auto.readings import ddp, gpu
from gputop.tracking.auto.readings.batches import Batches
from gputop.tracking.auto.readings.ddp import Gradients
from gputop.tracking.auto.readings.graphs import Graphs
from gputop.tracking.auto.readings.loader import Feed, counts, first_tensor, is_integer, is_table
from gputop.tracking.auto.steps import Steps
from gputop.tracking.auto.timings import Timings
from gputop.tracking.auto.training.discarded import are_discarded
from gputop.tracking.auto.training.fast_path import FastPath
from gputop.tracking.auto.training.iteration import Iteration
from gputop.tracking.auto.training.nested_steps import NestedSteps
from gputop.tracking.auto.training.optimizers import Optimizers
from gputop.tracking.auto.training.pace import Pace
from gputop.tracking.auto.training.several_losses import Several
from gputop.tracking.auto.training.state import Training
from gputop.tracking.auto.training.threads import Threads, has_ended
from gputop.tracking.auto.training.usual import Usual
from gputop.tracking.auto.without_optimizer import WithoutOptimizer
from gputop.tracking.manual_steps import (
    ManualSteps,
    has_own_values,
    is_kept,
    keeps_parts,
    may_read,
    sorted_leaves,
    sums_of,
    tensor_state,
)
from gputop.tracking.no_compile import exclude, no_compile
from gputop.tracking.stand_in import passed_over, stands_for
from gputop.tracking.unseen import has_modes, mode_counts, unseen

_NOT_COMPILED = (
    *(
        Training,
        Threads,
        Steps,
        Backwards,
        OtherThreads,
        WithoutOptimizer,
        Timings,
        Usual,
        FastPath,
        Several,
        Pace,
        Iteration,
        Optimizers,
        UserCode,
        Sites,
        Site,
        Feed,
        Batches,
        Gradients,
        Graphs,
        NestedSteps,
    ),
    *(
        ManualSteps,
        first_tensor,
        counts,
        is_integer,
        is_table,
        value_of,
        plain_value_of,
        read,
        read_mean,
        step_loss,
        rule,
        divided_by,
        is_divided_by,
    ),
    *(accelerate_divides_by, packed.may_read, has_ended, columns_of, label, unseen, has_modes, mode_counts),
    *(sorted_leaves, sums_of, tensor_state, is_kept, may_read, keeps_parts, has_own_values, are_discarded),
)
"""What the wrappers call."""


def patch(torch: Any, steps: Steps) -> None:
    """Install the wrappers; once per process."""
    exclude(torch, *_NOT_COMPILED)
    _patch_backward(torch, steps)
    packed.listen(torch, no_compile)
    _patch_optimizers(torch, steps)
    _patch_scaler(torch, steps)
    patch_loader(torch, steps)
    _patch_save(torch, steps.training)
    ddp.listen(torch, no_compile)
    gpu.listen(torch, no_compile)
    garbage_collections.listen(torch, steps.training)


def _patch_backward(torch: Any, steps: Steps) -> None:
    original = torch.autograd.backward  # Tensor.backward calls it by this name
    training, tensor = steps.training, torch.Tensor
    fast = training.fast

    @passed_over
    def full(tensors: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # A nested backward is part of the outer one (reentrant checkpointing), even if autograd's own thread runs it for a GPU.
        if fast.in_backward:
            return original(tensors, *args, **kwargs)
        training.end_early()
        if training.off or (get_ident() != training.thread and not steps.other_threads.continues_here(tensors)):
            return original(tensors, *args, **kwargs)
        backwards = steps.backwards
        try:
            with unseen(torch):
                if not fast.taken:
                    _listen_to_keras(torch, steps)
                backwards.before(tensors)
        except Exception as error:  # noqa: BLE001 - the user's backward runs next, whatever went wrong with its loss
            training.failed(error)
        clock = training.wanted.clock
        mark = clock.start() if clock is not None and clock.running else None
        started = perf_counter()
        fast.in_backward = True
        try:
            result = original(tensors, *args, **kwargs)
        except BaseException:
            backwards.failed()
            raise
        finally:
            fast.in_backward = False
        training.iteration.add_backward(perf_counter() - started)
        if clock is not None and mark is not None:
            clock.stop("cuda/backward_s", mark)
        try:
            if steps.without_optimizer.is_possible:
                with unseen(torch):
                    steps.without_optimizer.after_backward()
            steps.after_backward()
        except Exception as error:  # noqa: BLE001 - as above
            training.failed(error)
        return result

    @stands_for(original)
    def backward(
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: Any = None,
        create_graph: Any = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> Any:
        # List the arguments one by one: packing and unpacking them would take longer than everything else here.
        if fast.mode == "fast" and type(tensors) is tensor and get_ident() == fast.thread and fast.takes(tensors):
            try:
                return original(tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs)
            except BaseException:
                fast.drop_loss()
                raise
            finally:
                fast.in_backward = False
        return full(tensors, (grad_tensors, retain_graph, create_graph, grad_variables, inputs), {})

    @stands_for(original)
    def with_other_arguments(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        return full(tensors, args, kwargs)

    exclude(torch, full, backward, with_other_arguments)
    if takes(original, backward):
        torch.autograd.backward = backward
    else:
        training.without_fast_path()
        torch.autograd.backward = with_other_arguments


def _listen_to_keras(torch: Any, steps: Steps) -> None:
    if "keras" in sys.modules:
        from gputop.tracking.auto.keras import listen

        listen(torch, steps)


def takes(original: Any, wrapper: Any) -> bool:
    """Return whether a function takes the same arguments as its wrapper."""

    def arguments(function: Any) -> list[tuple[Any, ...]]:
        found = inspect.signature(function, follow_wrapped=False).parameters.values()
        return [(one.name, one.kind, one.default) for one in found]

    try:
        return arguments(original) == arguments(wrapper)
    except (TypeError, ValueError):
        return False


def _patch_optimizers(torch: Any, steps: Steps) -> None:
    training = steps.training
    fast = training.fast
    compiling = _compiling(torch)

    def traced() -> None:
        # Marked as a constant, so torch.compile calls it while tracing, and it leaves nothing in the graph.
        training.note_hidden_step()

    traced._dynamo_marked_constant = True  # type: ignore[attr-defined]
    optimizers: Any = sys.modules["torch.optim.optimizer"]  # torch.optim shadows the module's name
    nested = NestedSteps(optimizers)

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if compiling():
            traced()
        elif fast.mode != "fast" and not training.off and not nested.is_inner(optimizer):
            steps.before_step(optimizer)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if fast.mode == "fast":
            try:
                if nested.are_possible and nested.is_inner(optimizer):
                    return
                if fast.stepped(optimizer):
                    if fast.step == fast.pause_at or fast.mode != "fast":
                        training.pause()
                    return
                training.end_early()
            except Exception as error:  # noqa: BLE001 - as above
                training.failed(error)
        if training.off or compiling():
            return
        try:
            if not nested.is_inner(optimizer):
                steps.after_step(optimizer)
        except Exception as error:  # noqa: BLE001 - as above
            training.failed(error)

    exclude(torch, before, after)
    optimizers.register_optimizer_step_pre_hook(before)
    optimizers.register_optimizer_step_post_hook(after)


def _compiling(torch: Any) -> Callable[[], bool]:
    """Return the function of torch that returns True while torch.compile traces."""
    # The cheapest to call is first; torch 2.1 has only the last one.
    places = ("compiler.is_dynamo_compiling", "compiler.is_compiling", "_utils.is_compiling")
    return _first_of(torch, *places) or bool


def _first_of(torch: Any, *places: str) -> Any:
    """Return the first of what different releases of torch have in different places; None if this one has it nowhere."""
    for place in places:
        try:
            return attrgetter(place)(torch)
        except AttributeError:
            continue
    return None


def _patch_scaler(torch: Any, steps: Steps) -> None:
    scaler = _first_of(torch, "amp.grad_scaler.GradScaler", "cuda.amp.grad_scaler.GradScaler")  # the latter before torch 2.3
    if scaler is None:
        return
    training = steps.training
    fast = training.fast
    original_scale, original_step = scaler.scale, scaler.step

    @stands_for(original_scale)
    def scale(self: Any, outputs: Any) -> Any:
        result = original_scale(self, outputs)
        try:
            if fast.mode != "off" and result is not outputs and isinstance(result, torch.Tensor):
                steps.backwards.scaled(result, outputs)
        except Exception as error:  # noqa: BLE001 - as above
            training.failed(error)
        return result

    @stands_for(original_step)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        taken = fast.taken
        result = original_step(self, optimizer, *args, **kwargs)
        if fast.taken == taken and not training.off and not training.on_other_thread():
            training.end_early()
            try:
                steps.after_step(optimizer, skipped=True)
            except Exception as error:  # noqa: BLE001 - as above
                training.failed(error)
        return result

    scaler.scale, scaler.step = scale, step


def _patch_save(torch: Any, training: Training) -> None:
    original = torch.save
    storages = (torch.UntypedStorage, torch.TypedStorage)

    @stands_for(original)
    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        run = training.run
        # A storage is what pickling a tensor saves: to pass it to another rank, for example.
        if training.off or run is None or isinstance(obj, storages) or training.on_other_thread():
            return original(obj, f, *args, **kwargs)
        started = perf_counter()
        result = original(obj, f, *args, **kwargs)
        try:
            training.end_early()
            seconds = perf_counter() - started
            training.iteration.interrupt()
            path = os.fspath(f) if isinstance(f, str | os.PathLike) else getattr(f, "name", None)
            size = os.stat(path).st_size if isinstance(path, str) and not hasattr(f, "write") else None
            training.note({"checkpoint_s": seconds})
            run.fact("checkpoint", Checkpoint.filled(seconds=seconds, bytes=size, path=path, step=training.step))
        except Exception as error:  # noqa: BLE001 - as above
            training.failed(error)
        return result

    save.__module__ = torch.__name__  # where it now is: pickle looks for it there, for a process that is to save
    torch.save = save
