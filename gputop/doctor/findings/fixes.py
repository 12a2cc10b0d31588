"""Commands for the user's own run: its script, arguments and GPUs, ready to copy. Pure text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.command_line import script_words

if TYPE_CHECKING:  # the patterns of logs are loaded before the first frame, and need no evidence
    from gputop.doctor.evidence.rank_groups import RankGroup
    from gputop.snapshot import Device

SCRIPT_UNKNOWN = "YOUR_SCRIPT.py"
TORCHRUN, TORCHRUN_MODULE = "torchrun", "torch.distributed.run"
_COUNT_FLAGS = {
    TORCHRUN: ("--nproc-per-node", "--nproc_per_node"),
    "accelerate": ("--num_processes", "--num-processes"),
    "deepspeed": ("--num_gpus", "--num-gpus"),
}
_SHELL_ESCAPES = {"\\": "\\\\", "'": "\\'"}


def script_of(command: Sequence[str] | None) -> tuple[str, ...]:
    """Return the script (or "-m", module) and its arguments, without the interpreter and the launcher's additions."""
    return script_words(command) or (SCRIPT_UNKNOWN,)


def option(command: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the value of a command-line option, written "--name value" or "--name=value"."""
    for position, item in enumerate(command):
        name, equals, value = item.partition("=")
        if name in names:
            if equals:
                return value
            return command[position + 1] if position + 1 < len(command) else None
    return None


def with_option(command: Sequence[str], names: Sequence[str], value: str) -> tuple[str, ...]:
    """Return the command with the option set to ``value``; unchanged if it has none of these options."""
    changed = list(command)
    for position, item in enumerate(changed):
        name, equals, _ = item.partition("=")
        if name not in names:
            continue
        if equals:
            changed[position] = f"{name}={value}"
        elif position + 1 < len(changed):
            changed[position + 1] = value
    return tuple(changed)


def shell_word(text: str) -> str:
    """Return ``text`` as one word for a shell, on one line, without any control character."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(_SHELL_ESCAPES.get(sign, sign) if sign.isprintable() else _shell_escape(sign) for sign in text) + "'"


def shell_join(command: Sequence[str]) -> str:
    """Return a command as one line for a shell, without any control character."""
    return " ".join(map(shell_word, command))


def _shell_escape(sign: str) -> str:
    raw = sign.encode("utf-8", "surrogateescape" if "\udc80" <= sign <= "\udcff" else "replace")
    return "".join(f"\\x{byte:02x}" for byte in raw)


def launch_line(group: RankGroup, ranks: int, devices: Sequence[Device] = ()) -> str:
    """Return the command that starts this run with ``ranks`` ranks, on ``devices`` unless these are all devices."""
    return f"{mask_prefix(group, devices)}{shell_join(_launch_command(group, ranks))}"


def _launch_command(group: RankGroup, ranks: int) -> tuple[str, ...]:
    process = group.main_process
    started = _as_torchrun(group.run.command or ()) if group.run is not None else ()
    own = _as_torchrun(process.command or ()) if process is not None else ()
    if own[:1] == (TORCHRUN,):  # before its ranks start, the launcher is all that there is
        started = own
    for launcher, flags in _COUNT_FLAGS.items():
        position = next((at for at, item in enumerate(started) if item.rpartition("/")[2] == launcher), None)
        if position is None:
            continue
        if option(started, flags) is not None:
            return with_option(started[position:], flags, str(ranks))
        head = started[position:]
        lead = 2 if launcher == "accelerate" and len(head) > 1 and head[1] == "launch" else 1
        return (launcher, *head[1:lead], f"{flags[0]}={ranks}", *head[lead:])
    script = script_of(process.command if process is not None and process.command else started)
    launcher = group.launcher.name if group.launcher is not None else "torchrun"
    if launcher == "accelerate":
        return ("accelerate", "launch", f"--num_processes={ranks}", *script)
    if launcher == "deepspeed":
        return ("deepspeed", f"--num_gpus={ranks}", *script)
    return ("torchrun", "--standalone", f"--nproc-per-node={ranks}", *script)


def _as_torchrun(command: Sequence[str]) -> tuple[str, ...]:
    """Return "python -m torch.distributed.run …" as "torchrun …", and any other command unchanged."""
    for at, word in enumerate(command[:-1]):
        if word == "-m":
            return (TORCHRUN, *command[at + 2 :]) if command[at + 1] == TORCHRUN_MODULE else tuple(command)
    return tuple(command)


def own_command(group: RankGroup) -> str:
    """Return the run's start command, unchanged, as far as it is known."""
    ranks = group.local_world_size or 1
    if group.launcher is not None or (ranks > 1 and len(group.members) > 1):
        return launch_line(group, ranks)
    process = group.main_process
    if group.run is not None and group.run.command:
        return shell_join(group.run.command)
    return shell_join(process.command) if process is not None and process.command else f"python {SCRIPT_UNKNOWN}"


def mask_prefix(group: RankGroup, devices: Sequence[Device]) -> str:
    """Return "CUDA_VISIBLE_DEVICES=… " for these devices; empty if they are all devices."""
    if not devices or len(devices) == len(group.pool):
        return ""
    ordered = sorted(devices, key=lambda device: device.index)
    name = "GPUTOP_VIRTUAL_DEVICES" if group.virtual else "CUDA_VISIBLE_DEVICES"
    # CUDA orders unequal cards by speed, not by PCI bus, so an index would name a different card there.
    by_uuid = not group.virtual and len({device.name for device in group.pool}) > 1
    return f"{name}={shell_word(','.join(device.uuid if by_uuid else str(device.index) for device in ordered))} "
