"""Texts of autograd, and of operations whose operands do not fit. Pure.

Sources: torch 1.8 to 2.13, torch/csrc/autograd (saved_variable.cpp, variable.h, VariableTypeUtils.h, engine.cpp),
torch/autograd/__init__.py, aten/src/ATen/native (LinearAlgebra.cpp, Convolution.cpp), c10 and ATen/ExpandUtils.cpp.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure

_SHAPES = (
    (
        "shapes cannot be multiplied",
        r"mat1 and mat2 shapes cannot be multiplied \((?P<one>\d+x\d+) and (?P<other>\d+x\d+)\)",
        "A matrix of {one} cannot be multiplied by one of {other}",
        "The features of the input are not those that the layer was built for (in_features is the first number of {other}): "
        "another image size, a wrong flatten, or a backbone of another width.",
    ),
    (
        "must match the size of tensor b",
        r"The size of tensor a \((?P<one>\d+)\) must match the size of tensor b \((?P<other>\d+)\) at non-singleton dimension "
        r"(?P<dimension>\d+)",
        "Two tensors differ in dimension {dimension}: {one} and {other}",
        "The shapes cannot be broadcast: a last batch that is smaller, a missing unsqueeze, or targets of another length.",
    ),
    (
        " channels, but got ",
        r"expected input\[?[^\]]{0,200}\]? to have (?P<one>\d+) channels, but got (?P<other>\d+) channels instead",
        "A convolution expects {one} channels and gets {other}",
        "Images with another number of channels (grayscale, alpha), or dimensions in another order (height, width, channels).",
    ),
)

_SHARDED = (
    ("'weight' must be 2-D", r"'weight' must be 2-D"),
    ("should have at least three dimensions", r"weight should have at least three dimensions"),
    ("must be a matrix, got 1-D", r"mat2 must be a matrix, got 1-D tensor"),
    ("size mismatch, got input", r"size mismatch, got input \(\d+\), mat \(\d+x\d+\), vec \(\d+\)"),
    ("its data is not allocated yet", r"has a non-zero number of elements, but its data is not allocated yet"),
    ("for storage of size 0", r"setStorage: .{1,400} are out of bounds for storage of size 0"),
    ("for input of size 0", r"shape '\[[\d, -]{1,100}\]' is invalid for input of size 0$"),
)

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            "sharded_parameter",
            None,
            key,
            expression,
            "An operation got a parameter without its shape: FSDP or ZeRO-3 keeps it in shards",
            "Outside of the wrapped module's forward each rank has only a flat shard of a parameter, or none of it. A layer, "
            "or a method of the model other than forward, was called directly.",
            "out = model(batch)  # the wrapped model itself, so that its shards are gathered first\n"
            "with FSDP.summon_full_params(model): ...  # or deepspeed.zero.GatheredParameters([weight]): the whole parameter",
            confidence="likely",
            refuted_by="Neither FSDP nor ZeRO stage 3 is in use: the tensor is the script's own, of a wrong shape or empty.",
        )
        for key, expression in _SHARDED
    ),
    failure(
        "inplace_modified",
        None,
        "has been modified by an inplace operation",
        r"variables? needed for gradient computation has been modified by an inplace operation"
        r"(?:: \[(?P<kind>[\w.]{1,80}) \[(?P<shape>[^\]]{0,200})\]\](?:, which is output (?P<output>\d+) of (?P<made>\w+),)? "
        r"is at version (?P<version>\d+); expected version (?P<expected>\d+))?",
        "A tensor that backward needs was changed in place (shape [{shape}], made by {made})",
        "After forward had kept it, something wrote into it: +=, relu_, an optimizer's step between forward and backward, or "
        "in DDP a second forward before backward, which broadcasts the buffers (BatchNorm) anew.",
        "torch.autograd.set_detect_anomaly(True)  # the traceback then names the line of forward; slow, for finding it alone\n"
        "x = x + y  # in place of x += y; nn.ReLU(inplace=False)\n"
        "DDP(model, device_ids=[local_rank], broadcast_buffers=False)  # where two forwards come before one backward",
        refuted_by="x.clone() of that tensor, before it is used, does not help.",
    ),
    failure(
        "second_backward",
        None,
        "backward through the graph a second time",
        r"Trying to backward through the graph a second time",
        "backward runs a second time through the same graph",
        "A loss or a state of an earlier step is still part of this one's: a hidden state or a running loss that was not "
        "detached, a tensor that was made once outside of the loop, or two losses that share a forward.",
        "hidden = hidden.detach()  # between steps; total += loss.item()\n"
        "(loss_a + loss_b).backward()  # two losses of one forward: one backward",
        refuted_by="Every tensor that the loss depends on was made after the last backward.",
    ),
    failure(
        "no_grad",
        None,
        "does not require grad and does not have a grad_fn",
        r"(?:element \d+|One) of (?:the )?(?:input )?tensors does not require grad",
        "Nothing that the loss depends on is trainable: it does not require grad",
        "All parameters are frozen, the forward ran under torch.no_grad() or inference_mode, the loss was made anew "
        "(torch.tensor(loss), .item(), argmax), or gradient checkpointing met frozen inputs.",
        "print([n for n, p in model.named_parameters() if p.requires_grad])  # empty: unfreeze, before the optimizer is made\n"
        "model.enable_input_require_grads()  # Transformers with PEFT and gradient checkpointing",
        refuted_by="loss.requires_grad is True just before backward.",
    ),
    failure(
        "leaf_in_place",
        None,
        "used in an in-place operation",
        r"leaf [Vv]ariable that requires grad (?:is being|has been) used in an in-place operation",
        "A parameter is changed in place while autograd records",
        "Weights may be written only outside of the graph: initialization, an average, or a copy into a parameter.",
        "with torch.no_grad(): p.copy_(value)  # or torch.nn.init",
        refuted_by="The line of the traceback writes into no tensor that requires grad.",
    ),
    failure(
        "loss_no_scalar",
        None,
        "grad can be implicitly created only for scalar outputs",
        r"grad can be implicitly created only for scalar outputs",
        "backward was called on a loss of many values",
        "The loss has one value for each sample or GPU: reduction='none', or nn.DataParallel, which gathers one for each GPU.",
        "loss.mean().backward()",
        refuted_by="loss.numel() is 1.",
    ),
    *(
        failure(
            "shapes",
            None,
            key,
            expression,
            title,
            means,
            "# print x.shape before the line that the traceback names\n"
            "DataLoader(dataset, batch_size=64, drop_last=True)  # where only the last batch differs",
            refuted_by="The shapes before that line are the ones that the layer was built for.",
        )
        for key, expression, title, means in _SHAPES
    ),
)
