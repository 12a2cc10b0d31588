"""Texts about checkpoints that cannot be loaded, or not be written. Pure.

Sources: torch/nn/modules/module.py (load_state_dict), torch/optim/optimizer.py (load_state_dict), torch/serialization.py and
torch/_weights_only_unpickler.py (2.0 to 2.13), caffe2/serialize/inline_container.cc, torch/distributed/checkpoint/
default_planner.py; Modules/_pickle.c of Python; safetensors/src/tensor.rs (0.3 to 0.7).
"""

from __future__ import annotations

from collections.abc import Mapping

from gputop.doctor.logs.patterns.pattern import HINT, Pattern, failure

_WHOLE = "torch.load of the same file works in a fresh Python."
_CUT = (
    "The file is truncated: the run that wrote it ended too early, the disk was full, or it is still being written or copied."
)
_SAVE = (
    "ls -l PATH; df -h PATH  # continue from the checkpoint before it\n"
    "torch.save(state, path + '.tmp'); os.replace(path + '.tmp', path)  # a save that cannot be left incomplete"
)
_DAMAGED = (
    ("PytorchStreamReader failed", r"PytorchStreamReader failed (?P<why>[^:\n]{1,200})(?:: (?P<more>.+))?"),
    ("pickle data was truncated", r"UnpicklingError: (?P<why>pickle data was truncated)"),
    ("unexpected EOF, expected", r"(?P<why>unexpected EOF), expected (?P<more>\d+) more bytes\. The file might be corrupted"),
    ("Invalid magic number", r"(?P<why>Invalid magic number); corrupt file\?"),
    ("while deserializing header", r"Error while deserializing header: (?P<why>\w+)"),
)


def _differ_by_a_prefix(groups: Mapping[str, str]) -> bool:
    name, other = f".{groups['name']}", f".{groups['other']}"
    return name != other and (name.endswith(other) or other.endswith(name))


def _sizes(saved: str, own: str) -> str:
    """Return the expression for a parameter with other sizes in the checkpoint than in the model."""
    return (
        rf"size mismatch for (?P<name>\S{{1,200}}): copying a param with shape torch\.Size\((?P<saved>{saved})\)"
        rf" from checkpoint, the shape in current model is torch\.Size\((?P<own>{own})\)"
    )


_ANY = r"[^)]{0,200}"
_EMPTY = r"\[0\]"
"""ZeRO-3 leaves a placeholder with this shape on each rank, and FSDP on the ranks that hold no part of a parameter."""

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "shape_differs",
        None,
        "size mismatch for",
        _sizes(_EMPTY, rf"(?!{_EMPTY}){_ANY}"),
        "The checkpoint has no values of {name}: they were saved without being gathered from the ranks",
        "ZeRO-3 and FSDP spread each parameter over the ranks, and state_dict() of one rank has an empty one in its place. The "
        "weights are in the sharded checkpoint beside this file, if one was written.",
        "python zero_to_fp32.py . OUT  # DeepSpeed puts it into the folder of its checkpoints: it gathers them\n"
        "accelerate merge-weights CHECKPOINT_DIR OUT  # the same for FSDP's sharded checkpoints\n"
        '# next time: "stage3_gather_16bit_weights_on_model_save": true, FSDP: state_dict_type FULL_STATE_DICT, and\n'
        "# save on all ranks: model_engine.save_16bit_model(dir), accelerator.get_state_dict(model)",
        confidence="likely",
        refuted_by="The run that saved it used neither ZeRO-3 nor FSDP: a buffer that was still empty looks the same.",
    ),
    failure(
        "shape_differs",
        None,
        "size mismatch for",
        _sizes(rf"(?!{_EMPTY}){_ANY}", _EMPTY),
        "{name} is empty in this process: the model is spread over the ranks, and the checkpoint is not",
        "Under ZeRO-3 (zero.Init), each rank has an empty parameter in the place of the whole one, so load_state_dict finds no "
        "room for the weights.",
        "with deepspeed.zero.GatheredParameters(list(model.parameters()), modifier_rank=0):\n"
        "    ...  # load on rank 0; or load before deepspeed.initialize, outside of deepspeed.zero.Init()",
        confidence="likely",
        refuted_by="The model is not spread over the ranks: a buffer that the model fills later looks the same.",
    ),
    failure(
        "shape_differs",
        None,
        "size mismatch for",
        _sizes(_ANY, _ANY),
        "The checkpoint does not match the model: {name} is {saved} there and {own} here",
        "The model was built with different sizes from those of the saved one: number of classes, width, vocabulary.",
        "# build the model with the checkpoint's configuration, or leave {name} out:\n"
        "state = torch.load(path); state.pop('{name}'); model.load_state_dict(state, strict=False)",
    ),
    failure(
        "weights_only",
        None,
        "Weights only load failed",
        r"Weights only load failed",
        "The checkpoint contains more than weights, and torch.load accepts only weights",
        "Since torch 2.6, torch.load uses weights_only=True by default, which refuses all classes but tensors.",
        "torch.load(path, weights_only=False)  # only for a file that you trust; or "
        "torch.serialization.add_safe_globals([Class])",
    ),
    failure(
        "weights_only",
        None,
        "Unsupported ",
        r"Unsupported (?:global: GLOBAL|class|operand) (?P<name>\S+?)(?: was not an allowed global by default|$)",
        "The checkpoint contains {name}, and torch.load accepts only weights",
        "Since torch 2.6, torch.load uses weights_only=True by default, which refuses all classes but tensors.",
        "torch.load(path, weights_only=False)  # only for a file that you trust; or "
        "torch.serialization.add_safe_globals([{name}])",
    ),
    *(
        failure("checkpoint_damaged", None, key, expression, "A checkpoint is damaged or incomplete: {why}", _CUT, _SAVE)
        for key, expression in _DAMAGED
    ),
    failure(
        "checkpoint_not_one",
        None,
        "invalid load key",
        r"invalid load key, '(?P<byte>[^']*)'",
        "The file is not a checkpoint: it begins with '{byte}'",
        "'<' begins an HTML page that was downloaded instead, 'v' the pointer that Git leaves if Git LFS is not installed, "
        "'{{' or '#' a text file.",
        "head -c 200 PATH; ls -l PATH  # then download it again; in a repository: git lfs install && git lfs pull",
        refuted_by=_WHOLE,
    ),
    failure(
        "checkpoint_empty",
        None,
        "EOFError: Ran out of input",
        r"EOFError: Ran out of input",
        "A pickled file is empty",
        "A checkpoint or cache of 0 bytes: the process that wrote it ended too early, or several ranks read and write it at "
        "once.",
        f"ls -l PATH  # 0 bytes: remove it\n{_SAVE.splitlines()[1]}",
        confidence="likely",
        refuted_by="The file that the traceback reads is not empty.",
    ),
    failure(
        "checkpoint_write",
        None,
        "PytorchStreamWriter failed",
        r"PytorchStreamWriter failed (?P<why>[^:\n]+)",
        "A checkpoint could not be written: {why}",
        "The disk or the quota is full, or the file system went away while it was written. The file is incomplete.",
        "df -h PATH; quota -s\n# remove the unfinished file, and continue from the checkpoint before it",
        confidence="likely",
        refuted_by="df and quota show free space on the file system that is written to.",
    ),
    failure(
        "optimizer_groups",
        None,
        "oaded state dict ",
        r"loaded state dict (?P<why>contains a parameter group that doesn't match the size of optimizer's group|has a "
        r"different number of parameter groups)",
        "The optimizer's checkpoint does not match its parameters: it {why}",
        "The optimizer was created with different parameters from those of the saved one: layers were added, frozen or "
        "unfrozen since, or split into other groups (weight decay).",
        "# create the same groups in the same order before loading; if the model changed on purpose, load only the model:\n"
        "model.load_state_dict(state['model'])",
        refuted_by="Model, frozen layers and parameter groups are those of the run that saved it.",
    ),
    # What load_state_dict returns with strict=False: a named tuple, which scripts print.
    Pattern(
        "not_loaded",
        None,
        "issing_keys=[",
        r"missing_keys=\['(?P<name>[\w.]{1,200})'[^\]=]{0,3000}\], unexpected_keys=\['(?P<other>[\w.]{1,200})'",
        "load_state_dict left {name} as it was: the checkpoint calls it {other}",
        "strict=False skips every name that only the model or only the checkpoint has, without an error. The model was saved "
        "from a wrapper (DDP, torch.compile, a LightningModule), or is wrapped now, so its layers keep their initial weights.",
        "state = {{key.removeprefix('module.'): value for key, value in state.items()}}  # or load into model.module\n"
        "model.load_state_dict(state)  # without strict=False, which hides the names that differ",
        HINT,
        confidence="likely",
        holds=_differ_by_a_prefix,
        lasting=True,
    ),
    failure(
        "state_dict_names",
        None,
        "in checkpoint state_dict",
        r"Missing key in checkpoint state_dict: (?P<name>\S+?)\.?$",
        "The distributed checkpoint lacks {name}",
        "It was saved from another model, from a wrapped one, or without the optimizer.",
        "# what it contains: torch.distributed.checkpoint.FileSystemReader(path).read_metadata().state_dict_metadata.keys()",
        groups={"which": "Missing"},
    ),
)
