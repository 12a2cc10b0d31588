"""Texts of DeepSpeed about its arguments, its configuration and its hosts. Pure.

Sources: DeepSpeed 0.3 to 0.18, deepspeed/runtime/config.py (_batch_assertion, _do_error_check), deepspeed/__init__.py,
deepspeed/launcher/runner.py, deepspeed/runtime/engine.py and
zero/partitioned_param_coordinator.py; transformers/integrations/deepspeed.py (4.x and 5.x).
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure, hint

_CONFIG = "DeepSpeed's configuration contradicts itself or the script's arguments, so nothing was trained."
_HOSTS = (
    ("not found in hostfile", r"(?P<why>Hostname '?[^'\s]+'? not found in hostfile)"),
    ("specified on host", r"(?P<why>No slot '?\d+'? specified on host '?[^'\s]+'?)"),
    ("Hostfile ", r"ValueError: (?P<why>Hostfile (?:contains [^,]+|is empty or not formatted correctly))"),
    ("include/exclude", r"(?P<why>Cannot specify num_nodes/gpus with include/exclude)"),
    ("mutually exclusive", r"(?P<why>include_str and exclude_str are mutually exclusive)"),
    ("no extra nodes available", r"(?P<why>Num nodes is >1 but no extra nodes available via hostfile)"),
    ("no GPU resources available", r"(?P<why>Unable to proceed, no GPU resources available)"),
)
_REFUSED = (
    ("requires --deepspeed_config", r"(?P<why>DeepSpeed requires --deepspeed_config to specify configuration file)"),
    ("existing deepspeed config", r"(?P<why>Expected a string path to an existing deepspeed config[^\n]*)"),
    ("needs to be provided", r"(?P<why>Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided)"),
    ("simultaneously enabled", r"(?P<why>bfloat16 and fp16 modes cannot be simultaneously enabled)"),
    ("untested ZeRO", r"(?P<why>You are using an untested ZeRO Optimizer[^\n]*)"),
    ("requires an optimizer", r"(?P<why>zero stage \S+ requires an optimizer)"),
    (
        "deepspeed configs in the deepspeed arguments",
        r"(?P<why>we were given deepspeed configs in the deepspeed arguments and)",
    ),
    ("not a supported DeepSpeed Optimizer", r"(?P<why>(?<!\S)\S+ is not a supported DeepSpeed Optimizer)"),
    ("DeepSpeed config values that mismatch", r"(?P<why>DeepSpeed config values that mismatch \w+ +values)"),
)

_ZERO3 = (
    ("'ds_numel': ", r"AssertionError: \{'id': \d+, 'status': '(?P<status>INFLIGHT|NOT_AVAILABLE)', "),
    ("still have inflight params", r"still have (?P<status>inflight) params"),
)

PATTERNS: tuple[Pattern, ...] = (
    hint(
        "cache_flushes",
        "E04",
        "allocator cache flushes since last step",
        # deepspeed/runtime/zero/stage3.py, once for each step in which it happens.
        r"\b(?P<times>\d{1,6}) pytorch allocator cache flushes since last step",
        "torch's allocator empties its cache in a step, as GPU memory is nearly full",
        "Too little memory is left: the allocator gives everything back to the driver and asks for it again, which waits for "
        "the GPU.",
        "get_accelerator().empty_cache()  # on all ranks at the same step, so that they do not wait for each other\n"
        "# a smaller batch with more accumulation, shorter sequences, stage3_max_live_parameters, or offload",
        confidence="likely",
    ),
    *(
        failure(
            "zero3_order",
            None,
            key,
            expression,
            "ZeRO-3 misses a parameter that a layer needs ({status})",
            "ZeRO-3 fetches each layer's weights in the order of the steps before. Layers that run in another order, in some "
            "steps only, outside of the engine (model.module.generate), or in an evaluation in between, find them absent.",
            "with deepspeed.zero.GatheredParameters(list(model.parameters())): ...  # around what runs outside of the engine\n"
            '"stage3_prefetch_bucket_size": 0  # no fetching ahead; or stage 2, if the model fits\n'
            "pip install -U deepspeed  # several of these were its own errors",
            confidence="likely",
            refuted_by="The same script works with ZeRO stage 2: no layer runs outside of the engine or in another order.",
        )
        for key, expression in _ZERO3
    ),
    failure(
        "ds_batch_sizes",
        None,
        "train_batch_size is not equal to",
        r"train_batch_size is not equal to micro_batch_per_gpu \* gradient_acc_step \* world_size ?"
        r"(?P<batch>\d+) != (?P<micro>\d+) \* (?P<steps>\d+) \* (?P<world>\d+)",
        "DeepSpeed's batch sizes do not match: train_batch_size {batch} is not {micro} × {steps} × {world} ranks",
        "train_batch_size is the total over all ranks and accumulation steps. One of the three has changed, or the number "
        "of ranks has.",
        '# in the configuration: leave one of the three out, or set it to "auto" with Transformers\n'
        '"train_micro_batch_size_per_gpu": {micro}, "gradient_accumulation_steps": {steps}',
        refuted_by="DeepSpeed read a different configuration file from the one that was changed.",
    ),
    *(
        failure(
            "ds_hosts",
            None,
            key,
            expression,
            "DeepSpeed's launcher refuses the hosts or GPUs: {why}",
            "The hostfile contradicts --include, --exclude, --num_nodes or --num_gpus, so nothing was started.",
            "cat /job/hostfile  # or the file of --hostfile: one line for each host, 'worker-1 slots=8'\n"
            "deepspeed --include localhost:0,1 train.py --deepspeed_config ds_config.json",
            refuted_by="The same command starts with the same hostfile.",
        )
        for key, expression in _HOSTS
    ),
    *(
        failure(
            "ds_config",
            None,
            key,
            expression,
            "DeepSpeed refuses its configuration: {why}",
            _CONFIG,
            "python -m json.tool ds_config.json  # the file that --deepspeed_config (or --deepspeed) names\n"
            '# with Transformers: set values that the arguments also give to "auto"',
            refuted_by="The script continues after this message.",
        )
        for key, expression in _REFUSED
    ),
)
