"""Error texts about a script's tensors: on the wrong device, of the wrong type, too large for the GPU, or NaN. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod

from gputop.doctor.findings.finding import Severity
from gputop.doctor.logs.patterns.pattern import Pattern, failure, hint

_NAN_LOSS = (
    r"(?i)(?:\b|_)loss(?:(?:[ _]\w{1,40})?['\"]?\s*(?:[:=]|is|became)\s*(?:tensor\()?nan\b"
    # As print(f"epoch {epoch} loss {loss}") writes it: the value ends the line, or the next name and number follow.
    r"|\s+(?:tensor\()?nan(?:\s*(?:$|[,;|)\]])|\s+(?!(?:count|check|guard|ratio|rate|skip|step|batch|event|value|error)\w*\b)"
    r"[\w/]+[ :=]\s*[-+]?(?:\d|nan\b|inf\b)))"
)
_NOT_FINITE = r"(?:nan|inf(?:inite)?|not finite|non-?finite)"
_STOPS = r"(?:stopp?(?:ing|ed)|abort(?:ing|ed)|exit(?:ing|ed)|terminat(?:ing|ed)|quitting|halt(?:ing|ed))"
_ENDED_BY_NAN = (
    # One of several trainings in the same run may end so, and the run goes on with the next.
    r"(?i)^(?!.{0,200}\b(?:trial|fold|sweep)\b).{0,200}?(?:"
    # DETR, MAE, timm and the many scripts that began as a copy of one: "Loss is nan, stopping training".
    rf"\bloss(?:es)?\b.{{0,60}}\b{_NOT_FINITE}\b.{{0,40}}\b{_STOPS}\b(?! (?:this |the )?batch)"
    rf"|\b{_STOPS}\b(?! (?:this |the )?batch).{{0,60}}\bloss\b.{{0,20}}\b{_NOT_FINITE}\b"
    # keras/callbacks/terminate_on_nan.py
    r"|(?<![A-Za-z])Batch \d{1,9}: Invalid loss, terminating training"
    # An exception of the script's own, as Megatron's: "found NaN in local forward loss calculation".
    rf"|^[\w.]{{1,80}}(?:Error|Exception): .{{0,120}}(?:\bloss\b.{{0,60}}\b{_NOT_FINITE}\b|"
    rf"\bfound {_NOT_FINITE} in (?:local )?(?:forward loss|loss|grad)))"
)

_GIB = {"B": 2.0**-30, "KiB": 2.0**-20, "MiB": 2.0**-10, "GiB": 1.0, "TiB": 1024.0}


def _is_another(groups: Mapping[str, str]) -> bool:
    """Return whether the process of the text can be another one than the rank itself.

    In a container torch does not recognize its own PID, and lists itself as a process next to it: then the memory of both
    together is more than what is used.
    """
    sizes = [groups[name].split(" ") for name in ("total", "free", "other", "allocated") if name in groups]
    if len(sizes) < 4 or "this process has" in groups.get("between", ""):
        return True
    total, free, other, allocated = (float(number) * _GIB.get(unit, 1.0) for number, unit in sizes)
    return other + allocated <= (total - free) * 1.02


def _stretches_both(groups: Mapping[str, str]) -> bool:
    """Return whether two shapes hold as many elements, so that both are stretched: [N] and [N, 1] become [N, N]."""
    target, prediction = (prod(int(size) for size in re.findall(r"\d+", groups[name])) for name in ("target", "input"))
    return target == prediction > 1


_XLA_FULL = (
    # XLA: xla/service/gpu and xla/tsl/framework/bfc_allocator.cc, under jaxlib 0.1.60 to 0.8; "allocating" from 0.4.31 on.
    (
        "RESOURCE_EXHAUSTED: ",
        r"RESOURCE_EXHAUSTED: Out of memory (?:while trying to allocate|allocating) (?P<size>[\d.]+ ?\w+)",
    ),
    # TensorFlow: core/common_runtime/gpu and core/framework/allocator.cc.
    ("OOM when allocating", r"OOM when allocating tensor with shape ?\[[\d,]{0,100}\].{0,200}\bGPU:\d"),
)
"""How XLA and TensorFlow say that a GPU is full."""
_BROADCAST: tuple[tuple[Severity, Callable[[Mapping[str, str]], bool] | None], ...] = (
    ("error", _stretches_both),
    ("warning", None),  # a single target for all predictions may be meant
)
PATTERNS: tuple[Pattern, ...] = (
    failure(
        "two_devices",
        "A13",
        "same device, but found at least two devices",
        r"Expected all tensors to be on the same device, but found at least two devices, "
        r"(?P<one>\w+(?::\d+)?) and (?P<other>\w+(?::\d+)?)!",
        "One operation got tensors on {one} and on {other}",
        "An input, the model, or a tensor created in forward is on the wrong device. x.to(device) returns a copy and "
        "changes nothing in place.",
        "x = x.to(model_device)  # in forward: torch.zeros(..., device=x.device), or self.register_buffer(...)",
    ),
    failure(
        "two_devices",
        "A13",
        "on the same device, but got",
        r"Expected all tensors to be on the same device, but got (?P<what>\w+) is on (?P<one>\w+(?::\d+)?), "
        r"different from other tensors on (?P<other>\w+(?::\d+)?)",
        "One operation got tensors on {other} and on {one} ({what})",
        "{what} is on {one}, the others on {other}: x.to(device) returns a copy and changes nothing in place.",
        'x = x.to("{other}")  # in forward: torch.zeros(..., device=x.device), or self.register_buffer(...)',
    ),
    *(
        failure(
            "two_devices",
            "A13",
            "type (torch.cuda.",
            rf"Input type \(torch\.(?P<one>{one}\w+)\) and (?:weight|bias) type \(torch\.(?P<other>{other}\w+)\) "
            r"should be the same",
            "The input is {one} and the weights are {other}",
            "The input and the model are on different devices. x.to(device) returns a copy and changes nothing in place.",
            "x = x.to(next(model.parameters()).device)\nmodel.to(device)",
        )
        for one, other in ((r"cuda\.", r"(?!cuda\.)"), (r"(?!cuda\.)", r"cuda\."))
    ),
    *(
        failure(
            "two_dtypes",
            None,
            key,
            expression,
            "One operation got tensors of two types: {one} and {other}",
            "Both are on the same device. NumPy produces float64, .half() and 16-bit checkpoints produce float16, and "
            "autocast converts only the operations inside it.",
            "x = x.to(next(model.parameters()).dtype)\n"
            'with torch.autocast("cuda", dtype=torch.bfloat16): loss = model(x)  # or mixed precision: parameters in float32',
        )
        for key, expression in (
            (
                "should be the same",
                r"Input type \((?P<one>torch\.cuda\.\w+)\) and (?:weight|bias) type \((?P<other>torch\.cuda\.\w+)\) should be",
            ),
            (
                "should be the same",
                r"Input type \((?P<one>(?!torch\.cuda)[\w.:]+)\) and (?:weight|bias) type "
                r"\((?P<other>(?!torch\.cuda)[\w.:]+)\) should be",
            ),
            ("expected scalar type", r"expected scalar type (?P<one>\w+) but found (?P<other>\w+)"),
            ("must have the same dtype", r"mat1 and mat2 must have the same dtype, but got (?P<one>\w+) and (?P<other>\w+)"),
        )
    ),
    failure(
        "oom_other_proc",
        "H03",
        "memory in use",
        r"GPU (?P<gpu>\d+) has a total capaci?ty of (?P<total>\d+(?:\.\d+)? \w+) of which "
        r"(?P<free>\d+(?:\.\d+)? \w+) is free\. Process (?P<pid>\d+) has (?P<other>\d+(?:\.\d+)? \w+) memory in use"
        r"(?:(?P<between>.{0,400}?)allocated memory (?P<allocated>\d+(?:\.\d+)? \w+) is allocated by PyTorch)?",
        "GPU {gpu} is full, and process {pid} holds {other} of it",
        "GPU {gpu} had {free} free of {total}, while another process, {pid}, held {other}.",
        "ps -fp {pid}\ngputop pick -n 1  # the freest GPU, for CUDA_VISIBLE_DEVICES",
        holds=_is_another,
    ),
    failure(
        "oom",
        "H02",
        "out of memory",
        r"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)\.? ?\(?GPU (?P<gpu>\d+)"
        r"(?: has a total capaci?ty of |; )"
        r"(?P<total>[\d.]+ \w+)(?: of which (?P<free>[\d.]+ \w+) is free| total capacity; "
        r".{0,200}?(?P<free_old>\b[\d.]{1,12} \w+) free)?(?:.{0,400}?this process has (?P<own>[\d.]+ \w+) memory in use)?"
        r"(?:.{0,400}?(?P<reserved>\b[\d.]{1,12} \w+) is reserved by PyTorch but)?",
        "GPU {gpu} is full: another {size} did not fit into its {total}",
        "The model, activations, gradients and optimizer state, plus whatever else is on the GPU, need more memory than it "
        "has. The index is the process's own: under a mask, it means a different card.",
        "# smaller batch with accumulation, activation checkpointing, bf16, or FSDP\n"
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py  # if much is reserved but not allocated",
    ),
    failure(
        "oom",
        "H02",
        "out of memory",
        r"(?:CUDA|HIP|XPU|[Cc]uda) (?:error: )?out of memory|cudaErrorMemoryAllocation|"
        r"CUBLAS_STATUS_ALLOC_FAILED: out of memory|"
        # THC until torch 1.5, and Thrust's launchers.
        r"cuda runtime error \(2\) ?: out of memory|\bafter cudaLaunch\b.{0,100}: out of memory",
        "A GPU is full",
        "An allocation on the GPU failed.",
        "# smaller batch with accumulation, activation checkpointing, bf16, or FSDP\nnvidia-smi  # who else uses it",
    ),
    *(
        failure(
            "oom_xla",
            "H02",
            key,
            expression,
            "A GPU is full: another {size} did not fit",
            "The model, activations, gradients and optimizer state need more memory than the framework could take. JAX takes "
            "75% of a GPU when it starts, TensorFlow all of it.",
            "# smaller batch, rematerialization (jax.checkpoint), bfloat16, or sharding\n"
            "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95 python train.py  # JAX: more of the GPU",
            groups={"size": "tensor"},
        )
        for key, expression in _XLA_FULL
    ),
    failure(
        "oom_tf",
        "H02",
        "failed to allocate memory",
        r"ResourceExhaustedError: failed to allocate memory",
        "A GPU is full: TensorFlow could not allocate memory on it",
        "TensorFlow takes all of a GPU when it starts, and the model, activations, gradients and optimizer state need more.",
        "# smaller batch, mixed_float16 or mixed_bfloat16, or fewer layers\nnvidia-smi  # who else uses it",
        confidence="likely",
        refuted_by="The operation that failed ran on the CPU: then the host has no memory left.",
    ),
    *(
        failure(
            "nan_loss",
            "J01",
            key,
            _ENDED_BY_NAN,
            "The training ended because its loss was NaN or infinite",
            "The training diverged: the learning rate is too high, half precision is used without scaling, or there is a "
            "division by zero or bad data.",
            "torch.autograd.set_detect_anomaly(True)  # names the operation; slow, so only for the search\n"
            "# lower the learning rate, warm up, clip gradients, use bf16 rather than fp16",
            refuted_by="The run continues after this line.",
        )
        for key in ("nan", "NaN", "oss is inf", "not finite", "non-finite", "Invalid loss")
    ),
    *(
        hint(
            "nan_loss",
            None,
            key,
            _NAN_LOSS,
            "The loss is NaN",
            "The training diverged: the learning rate is too high, half precision is used without scaling, or there is a "
            "division by zero or bad data.",
            "torch.autograd.set_detect_anomaly(True)  # names the operation; slow, so only for the search\n"
            "# lower the learning rate, warm up, clip gradients, use bf16 rather than fp16",
        )
        for key in ("nan", "NaN")
    ),
    *(
        hint(
            "target_size",
            None,
            "that is different to the input size",
            r"Using a target size \(torch\.Size\(\[(?P<target>[\d, ]*)\]\)\) that is different to the input size "
            r"\(torch\.Size\(\[(?P<input>[\d, ]*)\]\)\)\. This will",
            "The loss broadcasts predictions of shape [{input}] against targets of shape [{target}]",
            "A regression loss stretches two shapes that differ to a common one. With [N, 1] against [N], it compares each "
            "prediction with every target, so the model learns only their mean.",
            "loss = criterion(prediction.squeeze(-1), target)  # the same shape for both, as [N]",
            severity=severity,
            confidence="likely",
            holds=holds,
            lasting=True,
        )
        for severity, holds in _BROADCAST
    ),
    hint(
        "nan_loss",
        None,
        "returned nan values",
        r"Function '(?P<function>\w+)' returned nan values in its (?P<output>\d+)\w\w output",
        "{function} produced NaN in the backward pass",
        "The first NaN of the backward pass comes from {function}: a root or logarithm of 0, a division by zero, an overflow.",
        "# add an epsilon inside the operation: torch.sqrt(x + 1e-8), x.clamp_min(1e-8).log(); or lower the learning rate",
    ),
    hint(
        "checkpoint_no_grad",
        "J03",
        "None of the inputs have",
        r"None of the inputs have requires_grad=True\. Gradients will be None",
        "Activation checkpointing got inputs without gradients: what it wraps is not trained",
        "The reentrant form computes gradients only if one of its inputs needs them. With frozen embeddings and adapters "
        "inside, as in LoRA, no input does, and the adapters stay as they are.",
        "model.enable_input_require_grads()  # Transformers\n"
        "checkpoint(..., use_reentrant=False)  # or gradient_checkpointing_kwargs={{'use_reentrant': False}} of the Trainer",
        confidence="possible",
    ),
    *(
        hint(
            "loss_scale",
            "J01",
            key,
            expression,
            "The gradients overflow at the smallest loss scale",
            "The training diverged in half precision: gradients are infinite or NaN at every scale.",
            "# use bf16 rather than fp16; else lower the learning rate, warm up longer, clip gradients\n"
            "torch.autograd.set_detect_anomaly(True)  # names the operation; slow, so only for the search",
            severity="error",
            confidence="likely",
        )
        for key, expression in (
            ("loss scale already at minimum", r"loss scale already at minimum"),
            ("Minimum loss scale reached", r"Minimum loss scale reached"),
            ("Attempted loss scale: 1", r"Attempted loss scale: 1(?:\.0)?, (?:but hysteresis|reducing to (?:1|1\.0|0\.5)\b)"),
        )
    ),
)
