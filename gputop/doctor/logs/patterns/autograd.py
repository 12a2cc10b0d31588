"""Texts of autograd, of gradients that are scaled, and of operations whose operands do not fit. Pure.

Sources: torch 1.8 to 2.13, torch/csrc/autograd (saved_variable.cpp, variable.h, VariableTypeUtils.h, engine.cpp),
torch/autograd/__init__.py, aten/src/ATen/native (LinearAlgebra.cpp, Convolution.cpp), c10 and ATen/ExpandUtils.cpp;
torch/nn/functional.py (_verify_batch_size), torch/amp/grad_scaler.py.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure

_SHAPES = (
    (
        "shapes cannot be multiplied",
        r"mat1 and mat2 shapes cannot be multiplied \((?P<one>\d+x\d+) and (?P<other>\d+x\d+)\)",
        "A matrix of {one} cannot be multiplied by one of {other}",
        "The input does not have the features that the layer was built for (in_features is the first number of {other}): a "
        "different image size, a wrong flatten, or a backbone of a different width.",
    ),
    (
        "must match the size of tensor b",
        r"The size of tensor a \((?P<one>\d+)\) must match the size of tensor b \((?P<other>\d+)\) at non-singleton dimension "
        r"(?P<dimension>\d+)",
        "Two tensors differ in dimension {dimension}: {one} and {other}",
        "The shapes cannot be broadcast: the last batch is smaller, an unsqueeze is missing, or the targets have a "
        "different length.",
    ),
    (
        " channels, but got ",
        r"expected input\[?[^\]]{0,200}\]? to have (?P<one>\d+) channels, but got (?P<other>\d+) channels instead",
        "A convolution expects {one} channels and gets {other}",
        "The images have a different number of channels (grayscale, alpha), or their dimensions are in a different order "
        "(height, width, channels).",
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
            "An operation got a parameter that has lost its shape: FSDP or ZeRO-3 keeps it in shards",
            "Outside the wrapped module's forward, each rank has only a flat shard of a parameter, or none of it. The "
            "script called a layer, or a method of the model other than forward, directly.",
            "out = model(batch)  # the wrapped model itself, so that its shards are gathered first\n"
            "with FSDP.summon_full_params(model): ...  # or deepspeed.zero.GatheredParameters([weight]): the whole parameter",
            confidence="likely",
            refuted_by="Neither FSDP nor ZeRO stage 3 is in use: the tensor is the script's own, and is empty or has the "
            "wrong shape.",
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
        "Something wrote to it after forward had saved it: +=, relu_, an optimizer step between forward and backward, or, "
        "with DDP, a second forward before backward, which broadcasts the buffers (BatchNorm) again.",
        "torch.autograd.set_detect_anomaly(True)  # the traceback then names the line in forward; slow\n"
        "x = x + y  # in place of x += y; nn.ReLU(inplace=False)\n"
        "DDP(model, device_ids=[local_rank], broadcast_buffers=False)  # if two forwards come before one backward",
        refuted_by="Using x.clone() instead of that tensor does not help.",
    ),
    failure(
        "second_backward",
        None,
        "backward through the graph a second time",
        r"Trying to backward through the graph a second time",
        "backward runs a second time through the same graph",
        "The loss still depends on an earlier step: a hidden state or a running loss was not detached, a tensor was created "
        "once outside the loop, or two losses share a forward.",
        "hidden = hidden.detach()  # between steps; total += loss.item()\n"
        "(loss_a + loss_b).backward()  # two losses of one forward: one backward",
        refuted_by="Every tensor that the loss depends on was created after the last backward.",
    ),
    failure(
        "no_grad",
        None,
        "does not require grad and does not have a grad_fn",
        r"(?:element \d+|One) of (?:the )?(?:input )?tensors does not require grad",
        "The loss does not depend on anything trainable: it does not require grad",
        "All parameters are frozen, the forward ran under torch.no_grad() or inference_mode, the loss was detached "
        "(torch.tensor(loss), .item(), argmax), or gradient checkpointing got frozen inputs.",
        "print([n for n, p in model.named_parameters() if p.requires_grad])  # empty: unfreeze before creating the optimizer\n"
        "model.enable_input_require_grads()  # Transformers with PEFT and gradient checkpointing",
        refuted_by="loss.requires_grad is True just before backward.",
    ),
    failure(
        "leaf_in_place",
        None,
        "used in an in-place operation",
        r"leaf [Vv]ariable that requires grad (?:is being|has been) used in an in-place operation",
        "A parameter was changed in place while autograd was recording",
        "Weights may be written only outside the graph, for example in an initialization, an average, or a copy into a "
        "parameter.",
        "with torch.no_grad(): p.copy_(value)  # or torch.nn.init",
        refuted_by="The line in the traceback does not write to a tensor that requires grad.",
    ),
    failure(
        "loss_no_scalar",
        None,
        "grad can be implicitly created only for scalar outputs",
        r"grad can be implicitly created only for scalar outputs",
        "backward was called on a loss with several values",
        "The loss has one value per sample or GPU: reduction='none', or nn.DataParallel, which gathers one per GPU.",
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
            "DataLoader(dataset, batch_size=64, drop_last=True)  # if only the last batch differs",
            refuted_by="The shapes before that line match what the layer was built for.",
        )
        for key, expression, title, means in _SHAPES
    ),
    failure(
        "batch_of_one",
        None,
        "Expected more than 1 value per channel",
        r"Expected more than 1 value per channel when training, got input size (?P<size>.{1,120})",
        "BatchNorm got a batch of one sample: {size}",
        "In training, BatchNorm computes the spread over the batch, which takes two values for each channel. Usually the last "
        "batch of an epoch has one sample left.",
        "DataLoader(dataset, batch_size=64, drop_last=True)  # or another batch size, or GroupNorm in its place",
        refuted_by="The batch before that line has more than one sample.",
    ),
    failure(
        "unscale_fp16",
        None,
        "Attempting to unscale FP16 gradients",
        r"Attempting to unscale FP16 gradients",
        "GradScaler cannot unscale the gradients of float16 weights",
        "Mixed precision keeps trained weights in float32 and computes in float16. These were loaded in float16, or moved "
        "to it by .half().",
        "for p in model.parameters():\n"
        "    if p.requires_grad: p.data = p.data.float()  # before the optimizer is created; frozen weights may stay\n"
        "# or train in bfloat16, without a scaler",
        refuted_by="All parameters of the optimizer are float32.",
    ),
    *(
        failure(
            "no_inf_checks",
            None,
            key,
            key,
            "GradScaler found no gradient in this optimizer",
            "None of its parameters got a gradient since the last step: the optimizer holds the parameters of another model "
            "(made before it was replaced or moved), they are frozen, or backward ran on a loss that was not scaled.",
            "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()  # in this order, once each\n"
            "print(sum(p.grad is not None for g in optimizer.param_groups for p in g['params']))  # before scaler.step",
            refuted_by="Some parameter of the optimizer has a gradient before scaler.step.",
        )
        for key in ("No inf checks were recorded for this optimizer", "No inf checks were recorded prior to update")
    ),
)
