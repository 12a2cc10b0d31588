"""A rank that runs on the cores of another socket than its GPU's (D10)."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence.data_waits import share_of_data
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import main_device
from gputop.snapshot import Device

HOLD_S = 60.0
"""The kernel moves threads between sockets for a moment (our choice)."""
DATA_SHARE = 0.1
"""Below this share of waiting for data, the distance costs nothing (docs/rules.md#d10; our choice)."""


def far_socket(evidence: Evidence, group: RankGroup) -> Judgement:
    """D10: a rank runs on the cores of the other socket."""
    if group.virtual or not any(device.cpu_affinity for device in group.pool):
        return None
    share = share_of_data(evidence, group)
    if share is None or share < DATA_SHARE:
        return None
    for member in group.members:
        process = member.process
        device = main_device(group, member)
        if process is None or device is None or not device.cpu_affinity or not process.cores_used:
            continue
        if set(process.cores_used) & set(device.cpu_affinity):
            continue
        finding = tracked.about(
            group,
            "D10",
            "info",
            "possible",
            f"Process {process.pid} runs far from {words.gpu(device)}",
            [
                Fact(f"it runs on cores {units.ranges(process.cores_used)}", list(process.cores_used), "/proc/<pid>/stat"),
                Fact(f"cores {units.ranges(device.cpu_affinity)} are near the GPU", list(device.cpu_affinity), "NVML"),
            ],
            "Its data for the GPU goes through the link between the sockets.",
            _near(group, device),
            "Its copies to the GPU are small.",
            [device],
            (process.pid,),
        )
        return Suspicion(finding, HOLD_S)
    return None


D10 = Rule(
    id="D10",
    order=2304,
    family="cpu",
    title="A rank runs on the wrong socket",
    severities=("info",),
    confidences=("possible",),
    needs=("NVML", "/proc", "journal: phase/data"),
    window_s=HOLD_S,
    every_s=SELDOM_S,
    threshold=(f"a rank's threads on none of its GPU's cores for a minute, and {DATA_SHARE:.0%} of the time waiting for data"),
    mechanism="The rank's data for its GPU goes through the link between the sockets.",
    signature="For a minute, a rank's threads run on none of the cores near its GPU, while it waits for data.",
    look_alike="Small copies.",
    fix="Start with `torchrun --numa-binding=node`, or with numactl.",
    judge=far_socket,
)


def _near(group: RankGroup, device: Device) -> str:
    """Return the command that starts the run with its ranks near their GPUs."""
    command = fixes.own_command(group)
    if command.startswith("torchrun "):
        return f"{command.replace('torchrun', 'torchrun --numa-binding=node', 1)}  # torch 2.9 or newer"
    if device.numa_node is not None:
        return f"numactl --cpunodebind={device.numa_node} --membind={device.numa_node} {command}"
    return f"taskset -c {units.ranges(device.cpu_affinity).replace(' ', '')} {command}"
