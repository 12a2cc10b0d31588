"""Texts of Accelerate, Transformers and Lightning about their arguments and configurations. Pure.

Sources: accelerate 0.20 to 1.15 (commands/launch.py, commands/config/config_args.py, accelerator.py, state.py), transformers
4.10 to 5.x (training_args.py, trainer.py), lightning 1.5 to 2.6 (fabric/utilities/device_parser.py, pytorch/trainer/
connectors/accelerator_connector.py), tokenizers 0.13 to 0.20 (the wrappers of its JSON).
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, failure

_BEGAN = "The script continues after this message."
_ACCELERATE = (
    ("had unknown keys", r"The config file at (?P<file>\S{1,400}) had (?P<why>unknown keys \([^)]{0,400}\))"),
    ("passed configuration file", r"The passed configuration file `?(?P<file>[^`\s]+)`? (?P<why>does not exist)"),
    ("`distributed_type` must be", r"(?P<why>A `distributed_type` must be specified in the config file)"),
    ("to use `--multi_gpu`", r"(?P<why>You need to use at least 2 processes to use `--multi_gpu`)"),
    ("You can only use one of", r"(?P<why>You can only use one of `--cpu`, `--multi_gpu`[^\n]*)"),
    ("Less than two GPU ids", r"(?P<why>Less than two GPU ids were configured and tried to run on multiple GPUs)"),
    ("using this config yaml", r"(?P<why>You need to manually pass in `--num_processes` using this config yaml)"),
)
_NO_GPU = (
    (
        "Mixed precision training with AMP",
        r"(?:FP16 )?Mixed precision training with AMP or APEX \((?P<flag>`--\w+`).{0,400}?can only be used on",
    ),
    (
        "mixed precision requires a",
        r"(?P<flag>fp16|bf16) mixed precision requires (?:a GPU|a device in|PyTorch >= 1\.10 and a)",
    ),
    ("Your setup doesn't support bf16", r"Your setup doesn't support (?P<flag>bf16)"),
    ("--tf32 requires Ampere", r"(?P<flag>--tf32) requires Ampere or a newer GPU"),
)
_LIGHTNING = (
    ("You requested gpu", r"You requested gpu: (?P<asked>.+)"),
    ("GPUs requested but none", r"(?P<asked>GPUs) requested but none are available"),
    ("No supported gpu backend", r"No supported (?P<asked>gpu) backend found"),
    ("can not run on your system", r"`?(?P<asked>\b\w+Accelerator)`? can not run on your system since the accelerator is not"),
)

_FORKED = (
    (
        "create new processes if CUDA is already",
        r"(?P<who>Lightning) can't create new processes if CUDA is already initialized",
    ),
    ("should only be initialized", r"the `Accelerator` should only be initialized inside your training function"),
    ("using `torch.cuda` in any cell", r"you need to avoid running any instruction using `torch\.cuda` in any cell"),
    (
        "has been initialized before the",
        r"has been initialized before the `notebook_launcher` could create a forked subprocess",
    ),
)
"""How launchers of notebooks say that CUDA was used before they fork."""

PATTERNS: tuple[Pattern, ...] = (
    *(
        failure(
            "cuda_before_launch",
            None,
            key,
            expression,
            "{who} cannot start the ranks: the notebook has already used CUDA",
            "The ranks are forks of the notebook, and CUDA cannot be used on both sides of a fork. A cell moved a model or a "
            "tensor to the GPU, called torch.cuda, or created an Accelerator; some packages do so when they are imported.",
            "# restart the kernel; create model, data and Accelerator inside the function that is launched\n"
            "torchrun --nproc-per-node=gpu train.py  # or as a script: no fork",
            refuted_by="In a fresh kernel, torch.cuda.is_initialized() is False just before the launch.",
            groups={"who": "Accelerate"},
        )
        for key, expression in _FORKED
    ),
    *(
        failure(
            "accelerate_config",
            None,
            key,
            expression,
            "accelerate launch refuses its configuration: {why}",
            "The file of `accelerate config` (~/.cache/huggingface/accelerate/default_config.yaml, or --config_file) is "
            "missing, comes from another version of Accelerate, or contradicts the options, so nothing was started.",
            "accelerate env  # the version, and the configuration that is used\n"
            "accelerate config  # write it again; or do without: accelerate launch --num_processes 2 --mixed_precision "
            "bf16 train.py",
            refuted_by=_BEGAN,
        )
        for key, expression in _ACCELERATE
    ),
    failure(
        "accelerate_state",
        None,
        "has already been initialized",
        r"(?P<name>AcceleratorState|PartialState) has already been initialized and cannot be changed"
        r".{0,400}?pass `(?P<flag>[^`]+)`",
        "A second Accelerator was created with different settings ({flag})",
        "All Accelerators of a process share one state: a notebook cell ran again, a library had already created one, or "
        "the Trainer and the script each did.",
        "accelerator = Accelerator(...)  # once, with these settings, and pass it on; in a notebook: restart the kernel",
        refuted_by="This process creates only one Accelerator.",
    ),
    *(
        failure(
            "precision_unsupported",
            "A12",
            key,
            expression,
            "{flag} was requested, but torch sees no GPU that supports it",
            "The process sees no GPU (a CPU build of torch, an empty CUDA_VISIBLE_DEVICES, a container without GPUs), or a "
            "GPU that is too old for the type.",
            'python -c "import torch; print(torch.__version__, torch.cuda.is_available(), torch.cuda.is_bf16_supported())"\n'
            "gputop doctor --before  # says why torch sees no GPU",
            confidence="likely",
            refuted_by="torch.cuda.is_available() is True in the process, and its GPU supports the type.",
        )
        for key, expression in _NO_GPU
    ),
    *(
        failure(
            "lightning_devices",
            "A12",
            key,
            expression,
            "Lightning cannot find the requested GPUs: {asked}",
            "devices names GPUs that this process does not see; under CUDA_VISIBLE_DEVICES, they are counted from 0.",
            'python -c "import torch; print(torch.cuda.device_count())"; echo $CUDA_VISIBLE_DEVICES\n'
            'Trainer(accelerator="gpu", devices="auto")',
            confidence="likely",
            refuted_by="torch.cuda.device_count() in the process is at least what devices requests.",
        )
        for key, expression in _LIGHTNING
    ),
    failure(
        "argument_unknown",
        None,
        "got an unexpected keyword argument",
        r"TypeError: (?P<function>[\w.<>]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'",
        "{function} has no argument {name}",
        "A typo, or a different version of the library from the one that the code was written for: options are renamed and "
        "removed (TrainingArguments' evaluation_strategy became eval_strategy in transformers 4.46).",
        "python -m pip list | grep -i -E 'torch|transformers|accelerate|trl|peft|lightning'  # and the code's requirements\n"
        "# correct the argument {name}, or install the version that has it",
        confidence="likely",
        refuted_by="help({function}) lists the argument.",
    ),
    failure(
        "optimizer_before_device",
        None,
        "model and the optimizer parameters are not on the same device",
        r"The model and the optimizer parameters are not on the same device",
        "The optimizer holds parameters that the model no longer has",
        "It was created before the model was moved to its device, and updates the parameters on the CPU.",
        "model.to(device)  # first\noptimizer = torch.optim.AdamW(model.parameters())  # then",
        refuted_by="The optimizer is created after model.to(device).",
    ),
    failure(
        "without_labels",
        None,
        "did not return a loss from the inputs",
        r"The model did not return a loss from the inputs, only the following keys: (?P<keys>[\w,]*)\."
        r"(?: For reference, the inputs it received are (?P<inputs>[\w,]*))?",
        "The batches have no labels: the model returned {keys}, and no loss",
        "A model of Transformers computes its loss only if the batch has the labels under a name that its forward expects "
        "(labels, start_positions ...). Here it got {inputs}: the column has another name, or the collator left it out.",
        'dataset = dataset.rename_column("label_of_mine", "labels")  # the name that forward() has\n'
        "import inspect; print(inspect.signature(model.forward))  # which names it expects\n"
        "# a model without a head (AutoModel) computes no loss: AutoModelFor... of the task does",
        refuted_by="next(iter(trainer.get_train_dataloader())) has the labels that forward() expects.",
    ),
    failure(
        "tokenizer_newer",
        None,
        "untagged enum ",
        r"did not match any variant of untagged enum (?:Py)?\w{0,40}Wrapper\b",
        "The installed tokenizers is older than the tokenizer.json that it reads",
        "The file uses a form that this version of the package tokenizers does not know: a newer version wrote it.",
        "python -m pip install --upgrade tokenizers transformers\n"
        "python -m pip show tokenizers  # the model's page names the version that it needs",
        confidence="likely",
        refuted_by="The newest tokenizers fails in the same way: then the file is damaged.",
    ),
)
