"""The open half of the second set: machines as other people's work leaves them, one snapshot a second."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from accuracy.cases import Case

from gputop.snapshot import Ancestor, Device, DeviceUse, Snapshot

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests import samples
from tests.doctor import tracked
from tests.doctor.scenes.base import Scene, gpus, journal, rank, scene, single, use
from tests.samples import EPOCH, GIB

_case = partial(Case, half="open")


def _four(second: int, **changes: Any) -> tuple[Device, ...]:
    """Four cards at work, whose readings move a little."""
    return tuple(samples.device(n, **{"utilization_percent": 95.0 + math.sin(second + n), **changes}) for n in range(4))


def _but(devices: tuple[Device, ...], index: int, **changes: Any) -> tuple[Device, ...]:
    return tuple(replace(device, **changes) if device.index == index else device for device in devices)


# ---- faults


def mask_names_one_gpu_for_four_ranks(second: int) -> Snapshot:
    """A line of the shell's start file still says CUDA_VISIBLE_DEVICES=2."""
    ranks = tuple(rank(n, use(2, 17.0, 24.0), world=4, second=second, cuda_visible_devices="2") for n in range(4))
    return scene(second, gpus([2], memory_used_bytes=69 * GIB), ranks, (journal(4, second),))


def card_with_half_its_power(second: int) -> Snapshot:
    """GPU 1 is limited to 350 W, its neighbours to 700 W."""
    capped: dict[str, Any] = {"power_limit_w": 350.0, "power_w": 348.0, "sm_clock_mhz": 1290.0}
    return tracked.ddp(second, 4, devices=_but(_four(second), 1, throttle_reasons=("sw_power_cap",), **capped))


def clocks_left_locked(second: int) -> Snapshot:
    """Somebody measured with nvidia-smi -lgc 1200 last week."""
    locked = _four(second, sm_clock_mhz=1200.0, power_w=402.0, throttle_reasons=("applications_clocks_setting",))
    return tracked.ddp(second, 4, devices=locked)


def riser_with_four_lanes(second: int) -> Snapshot:
    """A workstation whose second card hangs on a riser."""
    process = replace(single(4000, use(1, 21.0), second=second, visible=1, mask="1"), command=("python", "train_nerf.py"))
    device = samples.device(1, pcie_width=4, pcie_generation=3, utilization_percent=71.0 + second % 7)
    return scene(second, (samples.idle_device(0), device), (process,))


def double_bit_error_on_gpu_five(second: int) -> Snapshot:
    """Ten seconds after the first look the driver reports Xid 48 for GPU 5."""
    ranks = tuple(rank(n, use(n), world=8, second=second) for n in range(8))
    devices = gpus(range(8), ecc_uncorrected=0)
    if second >= 10:
        devices = _but(devices, 5, ecc_uncorrected=2, xid_errors=((EPOCH + 10.0, 48),))
    return scene(second, devices, ranks, (journal(8, second),))


def ranks_outlive_their_launcher(second: int) -> Snapshot:
    """torchrun was killed with -9 in the evening; two of its ranks sleep on and hold their memory."""
    orphans = tuple(
        replace(
            rank(n, use(n, 52.0, 0.0), world=2, second=0),
            pid=6600 + n,
            ppid=1,
            ancestors=(Ancestor(1, "systemd"),),
            launcher=None,
            state="S",
            cpu_percent=0.0,
            main_thread_cpu_percent=0.0,
            started_at=EPOCH - 40_000,
            run_id=None,
        )
        for n in range(2)
    )
    devices = tuple(
        samples.idle_device(n, memory_used_bytes=(53 if n < 2 else 0) * GIB, power_w=88.0 if n < 2 else 70.0) for n in range(4)
    )
    return scene(second, devices, orphans)


def workers_start_anew_each_epoch(second: int) -> Snapshot:
    """Thirty steps an epoch, and sixteen workers that import half of the environment at the start of each one."""
    metrics: tracked.Metrics = {
        **tracked.CALM,
        "step_s": lambda r, s: 2.7 if s % 30 == 0 else 0.2,
        "phase/data": lambda r, s: 2.5 if s % 30 == 0 else 0.002,
        "first_batch_s": lambda r, s: 2.5 if s % 30 == 0 else None,
        "epoch": lambda r, s: float(s // 30),
    }
    loader = {"num_workers": 16, "persistent_workers": False, "length": 30, "iterations": (100 + 3 * second) // 30}
    devices = gpus([0], 1, utilization_percent=0.0 if second % 10 in (3, 4, 5) else 97.0)
    return tracked.single(second, {"loader": loader}, metrics=metrics, devices=devices)


def logs_fourteen_values_each_step(second: int) -> Snapshot:
    """.item() on fourteen parts of the loss, step by step."""
    facts = {"synchronizations": {"per_step": 14.0, "steps": 40 + second, "where": "losses.py:88"}}
    metrics: tracked.Metrics = {**tracked.CALM, "step_s": lambda r, s: 0.12, "phase/data": lambda r, s: 0.003}
    return tracked.single(second, facts, metrics=metrics, devices=gpus([0], 1, utilization_percent=62.0 + second % 5))


def rank_three_alone_is_nan(second: int) -> Snapshot:
    """Rank 0 prints a loss as ever; that of rank 3 has been NaN since a broken shard."""
    metrics: tracked.Metrics = {
        **tracked.CALM,
        "loss": lambda r, s: math.nan if r == 3 and s > 130 else 2.0 - s * 0.001 + ((s * 7 + r * 13) % 11) * 0.01,
    }
    return tracked.ddp(second, 4, metrics=metrics, devices=_four(second))


def gloo_between_gpus(second: int) -> Snapshot:
    """init_process_group("gloo") from the days on a laptop."""
    facts = {"ddp": {"backend": "gloo", "communication_s": 0.16, "overlap_s": 0.03}, "process_group": {"backend": "gloo"}}
    ranks = tuple(replace(rank(n, use(n), world=4, second=second), threads=(("pt_gloo_runloop", 1),)) for n in range(4))
    devices = _four(second, utilization_percent=44.0 + second % 9)
    return tracked.ddp(second, 4, each=lambda number, step: facts, processes=ranks, devices=devices)


def ranks_on_one_card_of_a_container(second: int) -> Snapshot:
    """Consumer cards in a container: the driver lists who uses which card, and tells neither memory nor load of a process."""
    ranks = tuple(rank(n, use(0, None, None), world=4, second=second) for n in range(4))
    return scene(second, tuple(_consumer(n, busy=n == 0) for n in range(4)), ranks)


def all_spin_and_nothing_moves(second: int) -> Snapshot:
    """After 15 s the four cards of a run still show 100 %, at a quarter of their power; nobody tracks it."""
    hangs = second >= 15
    ranks = tuple(
        replace(
            rank(n, use(n, 19.0, 100.0), world=4, second=min(second, 15)),
            run_id=None,
            main_thread_cpu_percent=100.0,
            cpu_percent=100.0,
        )
        for n in range(4)
    )
    spinning: dict[str, Any] = {"utilization_percent": 100.0, "power_w": 104.0, "memory_activity_percent": 0.0}
    devices = tuple(replace(_consumer(n, busy=True), **(spinning if hangs else {})) for n in range(4))
    return scene(second, devices, ranks)


def own_training_fell_back_to_the_cpu(second: int) -> Snapshot:
    """A colleague's job keeps GPU 0 busy; mine says nothing, and trains on forty cores."""
    other = replace(single(9000, use(0, 44.0), second=second, visible=2, mask="0"), uid=1007, user="lin")
    mine = single(4000, nvidia_open=False, torch_cuda_mapped=False, autograd_threads=(), cpu_percent=3980.0)
    mine = replace(mine, command=("python", "segment.py", "--fold", "2"), main_thread_cpu_percent=99.0, threads=())
    return scene(second, gpus([0], 2), (other, mine))


def _consumer(index: int, busy: bool) -> Device:
    """An RTX 4090: no GPM, no NVLink, no ECC."""
    unknown: dict[str, Any] = {"sm_activity_percent": None, "tensor_activity_percent": None}
    card: dict[str, Any] = {"name": "NVIDIA GeForce RTX 4090", "memory_total_bytes": 24 * GIB, "pcie_generation_max": 4}
    card |= {"pcie_generation": 4, "power_limit_w": 450.0, "power_default_limit_w": 450.0, "sm_clock_max_mhz": 3105.0}
    if busy:
        return samples.device(index, memory_used_bytes=20 * GIB, power_w=391.0, sm_clock_mhz=2700.0, **card, **unknown)
    return samples.idle_device(index, power_w=21.0, sm_clock_mhz=210.0, **card, **unknown)


# ---- healthy


def fetches_its_weights_first(second: int) -> Snapshot:
    """torch is loaded and 60 GB of weights come over the network: no card is open yet, and the CPU has little to do."""
    process = single(4000, nvidia_open=False, torch_cuda_mapped=False, autograd_threads=(), cpu_percent=22.0, state="S")
    process = replace(process, started_at=EPOCH - 8, command=("python", "finetune_70b.py"), main_thread_cpu_percent=14.0)
    return scene(second, gpus([], 4), (process,))


def rollouts_and_updates_in_turns(second: int) -> Snapshot:
    """RLHF: servers on GPUs 4 to 7 write answers while the trainer on GPUs 0 to 3 waits, and the other way round."""
    answering = second % 40 < 20
    devices = tuple(
        samples.device(
            n, utilization_percent=(88.0 if answering is (n >= 4) else 0.0) + (second + n) % 5, memory_used_bytes=66 * GIB
        )
        for n in range(8)
    )
    trainers = tuple(
        replace(rank(n, use(n, 64.0), world=4, second=second, cuda_visible_devices="0,1,2,3"), run_id=None) for n in range(4)
    )
    server = ("python", "-m", "vllm.entrypoints.openai.api_server", "--tensor-parallel-size", "4")
    servers = tuple(
        replace(single(7100 + n, use(n, 65.0), second=0, visible=4, mask="4,5,6,7"), command=server, autograd_threads=())
        for n in range(4, 8)
    )
    return scene(second, devices, (*trainers, *servers))


def one_card_among_colleagues(second: int) -> Snapshot:
    """A shared box: each of three people has taken a card, and one is free."""
    mine = replace(single(4000, use(1, 11.0), second=second, visible=1, mask="1"), command=("python", "finetune.py"))
    others = tuple(
        replace(single(5000 + n, use(n, 60.0), second=second, visible=1, mask=str(n)), uid=1100 + n, user=f"u{n}")
        for n in (0, 3)
    )
    return scene(second, gpus([0, 1, 3], 4), (mine, *others))


def sixteen_batches_a_step(second: int) -> Snapshot:
    """Gradients are accumulated over sixteen batches, with no_sync around the first fifteen."""

    def each(number: int, step: int) -> dict[str, Any]:
        counts = {"steps": step, "backwards": 16 * step, "synced_backwards": step, "unsynced_steps": 0, "accumulation": 16}
        return {"gradients": counts}

    return tracked.ddp(second, 4, each=each, devices=_four(second))


def students_on_mig_instances(second: int) -> Snapshot:
    """One card in seven instances; four of them hold a program each."""
    card = samples.device(0, mig_enabled=True, utilization_percent=None, memory_used_bytes=31 * GIB)
    instances = tuple(
        Device(
            index=n,
            uuid=f"MIG-{n}",
            name="NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            kind="mig",
            parent_uuid=card.uuid,
            mig_label=f"0:{n} 1g.10gb",
            memory_total_bytes=10 * GIB,
            memory_used_bytes=(7 if n < 4 else 0) * GIB,
        )
        for n in range(7)
    )
    programs = tuple(
        replace(
            single(4000 + n, DeviceUse(f"MIG-{n}", 7 * GIB, None, "C"), second=second, visible=1, mask=f"MIG-{n}"),
            uid=1200 + n,
            user=f"student{n}",
            command=("python", f"exercise{n}.py"),
        )
        for n in range(4)
    )
    return scene(second, (card, *instances), programs)


def weights_that_were_good_already(second: int) -> Snapshot:
    """Fine-tuning whose loss begins near its floor and moves by a hundredth."""
    metrics: tracked.Metrics = {**tracked.CALM, "loss": lambda r, s: 0.412 + 0.011 * math.sin(s * 1.7) - s * 1e-6}
    return tracked.single(second, {}, metrics=metrics)


def two_tasks_with_unlike_losses(second: int) -> Snapshot:
    """Batches of two tasks take turns: one loss is about 0.4, the other about 2.9."""
    metrics: tracked.Metrics = {
        **tracked.CALM,
        "loss": lambda r, s: (2.9 if s // 40 % 2 else 0.4) - s * 0.0002 + ((s * 7 + r) % 11) * 0.01,
    }
    return tracked.ddp(second, 4, metrics=metrics)


SCENES: dict[str, Scene] = {
    build.__name__.replace("_", "-"): build
    for build in (
        mask_names_one_gpu_for_four_ranks,
        card_with_half_its_power,
        clocks_left_locked,
        riser_with_four_lanes,
        double_bit_error_on_gpu_five,
        ranks_outlive_their_launcher,
        workers_start_anew_each_epoch,
        logs_fourteen_values_each_step,
        rank_three_alone_is_nan,
        gloo_between_gpus,
        ranks_on_one_card_of_a_container,
        all_spin_and_nothing_moves,
        own_training_fell_back_to_the_cpu,
        fetches_its_weights_first,
        rollouts_and_updates_in_turns,
        one_card_among_colleagues,
        sixteen_batches_a_step,
        students_on_mig_instances,
        weights_that_were_good_already,
        two_tasks_with_unlike_losses,
    )
}
IN_THE_JOURNAL = ("workers-start-anew-each-epoch", "logs-fourteen-values-each-step", "rank-three-alone-is-nan")
CASES: tuple[Case, ...] = (
    # Four ranks want a GPU each, and the mask shows one; that they share it follows.
    _case("mask-names-one-gpu-for-four-ranks", ("A03",), acceptable=("A07",)),
    # Half the power of its neighbours; the others wait for it.
    _case("card-with-half-its-power", ("I02",), acceptable=("F02",)),
    # The driver names the setting as the reason.
    _case("clocks-left-locked", ("I07",)),
    # Four of sixteen lanes, generation 3 of 5, at work.
    _case("riser-with-four-lanes", ("I03",)),
    # Xid 48 is an error of the card's memory that ECC cannot correct.
    _case("double-bit-error-on-gpu-five", ("I04",)),
    # Ranks of torchrun whose parent is init, on cards where nothing is computed.
    _case("ranks-outlive-their-launcher", ("H04",)),
    # The first batch of each epoch takes as long as twelve steps.
    _case("workers-start-anew-each-epoch", ("D06",), acceptable=("D01",)),
    # Fourteen waits a step, a third of the GPU's time lost, and the data in time.
    _case("logs-fourteen-values-each-step", ("E01",)),
    # Only rank 3 is not finite.
    _case("rank-three-alone-is-nan", ("C11",), acceptable=("J01",)),
    # Parameters on CUDA, and gloo's threads in every rank.
    _case("gloo-between-gpus", ("C16",), acceptable=("E06",)),
    # Four ranks on one of four cards, as far as the driver tells.
    _case("ranks-on-one-card-of-a-container", ("A07",)),
    # Full load without power or memory traffic, on all cards alike.
    _case("all-spin-and-nothing-moves", ("G01",), acceptable=("C08", "G02")),
    # Forty cores at work in torch, no GPU open, one of two cards free.
    _case("own-training-fell-back-to-the-cpu", ("A12",)),
    # A run that has not begun.
    _case("fetches-its-weights-first"),
    # Neither half is idle for lack of anything but its turn.
    _case("rollouts-and-updates-in-turns"),
    # The mask is a promise to the others; GPU 2 is free for whoever comes next.
    _case("one-card-among-colleagues"),
    # Fifteen of sixteen backwards are not reduced, on purpose.
    _case("sixteen-batches-a-step"),
    # Independent programs, one for each instance.
    _case("students-on-mig-instances"),
    # Nothing to gain, and nothing wrong.
    _case("weights-that-were-good-already"),
    # Two levels in turns are no growth.
    _case("two-tasks-with-unlike-losses"),
)
