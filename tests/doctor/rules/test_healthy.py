"""Machines where nothing is wrong: the doctor stays silent at every second, not only at the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.snapshot import Ancestor, Device, DeviceUse, Host, LaunchEnvironment, Process
from tests import samples
from tests.doctor.scenes.base import (
    gpus,
    journal,
    one_rank,
    play,
    rank,
    scene,
    single,
    use,
    uuid,
    virtual,
    virtual_rank,
    virtual_run,
)
from tests.samples import EPOCH, GIB


def ddp_on_all(second):
    return scene(second, gpus(range(8)), tuple(rank(n, use(n), second=second) for n in range(8)), (journal(8, second),))


def ddp_untracked(second):
    processes = tuple(replace(rank(n, use(n), second=second), run_id=None, rank=n) for n in range(8))
    return scene(second, gpus(range(8)), processes)


def single_beside_others(second):
    others = tuple(
        single(7000 + n, use(n), uid=1001, user="bob", environment=None, autograd_threads=(), hidden=("environment",))
        for n in range(1, 8)
    )
    return scene(second, gpus(range(8)), (single(4000, use(0), second=second), *others))


def single_on_a_one_gpu_machine(second):
    return scene(second, gpus([0], 1), (single(4000, use(0), second=second, visible=1),))


def gradient_accumulation(second):
    """Utilization swings, communication comes every eighth step."""
    devices = tuple(replace(d, utilization_percent=98.0 if second % 8 else 20.0) for d in gpus(range(8)))
    return scene(second, devices, tuple(rank(n, use(n), second=second) for n in range(8)), (journal(8, second),))


def evaluation_on_rank_0(second):
    """For twenty seconds GPU 0 works alone; the ranks keep their memory elsewhere."""
    busy = range(8) if second % 60 < 40 else [0]
    devices = tuple(samples.device(n) if n in busy else samples.device(n, utilization_percent=0.0) for n in range(8))
    return scene(second, devices, tuple(rank(n, use(n)) for n in range(8)), (journal(8, min(second, 40)),))


def idle_machine(second):
    return scene(second, gpus([]))


def idle_desktop(second):
    """Xorg and a browser on GPU 0."""
    xorg = Process(900, (DeviceUse(uuid(0), GIB // 4, 2.0, "G"),), name="Xorg", uid=0, user="root", torch_mapped=False)
    return scene(second, (samples.idle_device(0, utilization_percent=12.0), samples.idle_device(1)), (xorg,))


def inference_server(second):
    """vLLM on one GPU of eight: torch is loaded, nothing runs backward."""
    command = ("python", "-m", "vllm.entrypoints.openai.api_server")
    return scene(second, gpus([0]), (single(4000, use(0), command=command, autograd_threads=()),))


def masked_inference_server(second):
    return scene(second, gpus([3]), (single(4000, use(3), mask="3", autograd_threads=()),))


def sweep(second):
    """Four runs with a GPU each, four GPUs left."""
    runs = tuple(single(4000 + n, use(n), second=second, mask=str(n), visible=1) for n in range(4))
    return scene(second, gpus(range(4)), runs)


def sweep_without_masks(second):
    """torch.device("cuda:n") from an argument."""
    runs = tuple(
        replace(single(4000 + n, use(n)), autograd_threads=tuple((i, 5.0 + second * (i == n)) for i in range(8)))
        for n in range(3)
    )
    return scene(second, gpus(range(3)), runs)


def chosen_in_gputop(second):
    """Launched by gputop on one GPU out of eight: the person ticked it."""
    environment = LaunchEnvironment(cuda_visible_devices=uuid(2), gputop_job_id="job-1")
    return scene(second, gpus([2]), (single(4000, use(2), second=second, visible=1, environment=environment),))


def mask_set_inside_python(second):
    """os.environ before import torch: the environment at launch shows nothing, the backward threads show one device."""
    return scene(
        second, gpus([5]), (single(4000, use(5), second=second, visible=1), single(4001, use(6), second=second, visible=1))
    )


def virtual_ddp(second):
    processes = tuple(virtual_rank(n, n) for n in range(2))
    return virtual(second, {0: 95.0, 1: 93.0}, processes, (virtual_run(second, [0, 1]),))


def virtual_single(second):
    """The recipe `single`, on one virtual GPU on purpose: CPU parameters are right here."""
    environment = LaunchEnvironment(virtual_devices="0", gputop_job_id="job-1")
    process = replace(virtual_rank(0, 0, 1), environment=environment, launcher=None)
    return virtual(second, {0: 95.0}, (process,), (virtual_run(second, [0]),))


def virtual_script(second):
    """A person's own script with `import gputop`, without a mask, on a laptop."""
    process = replace(virtual_rank(0, 0, 1), environment=LaunchEnvironment(), launcher=None)
    return virtual(second, {0: 95.0}, (process,), (virtual_run(second, [0]),))


def virtual_data_parallel(second):
    fact = {
        "device_ids": [0, 1], "replicas": 2, "batch_rows": 128, "rows_per_device": [64, 64],
        "calls": 10 * second, "underused_calls": 0, "uneven_calls": 0, "module": "LeNet",
    }  # fmt: skip
    run = virtual_run(second, [0], {"data_parallel": fact, "devices": [{"virtual_index": 0}, {"virtual_index": 1}]})
    uses = tuple(DeviceUse(f"virtual-{n}", GIB // 8, None, "") for n in range(2))
    environment = LaunchEnvironment(virtual_devices="0,1", gputop_job_id="job-1")
    process = replace(virtual_rank(0, 0, 1), devices=uses, environment=environment, launcher=None)
    return virtual(second, {0: 60.0, 1: 60.0}, (process,), (run,))


def mig(second):
    """Two runs on MIG instances: a process sees one instance, utilization of the parent is N/A."""
    parent = samples.device(0, mig_enabled=True, utilization_percent=None)
    parts = tuple(
        Device(n + 1, f"MIG-{n}", "MIG 1g.10gb", "mig", parent.uuid, memory_used_bytes=GIB, utilization_percent=None)
        for n in range(4)
    )
    runs = tuple(
        single(4000 + n, DeviceUse(f"MIG-{n}", 8 * GIB, None, "C"), second=second, visible=1, mask=f"MIG-{n}") for n in range(2)
    )
    return scene(second, (parent, samples.idle_device(9, mig_enabled=False), *parts), runs)


def container_without_host_pids(second):
    """The driver tells PIDs of the host, our own processes use no device that we can see."""
    foreign = tuple(Process(90_000 + n, (use(n),), in_namespace=False) for n in range(4))
    facts = {"model": {"parameter_device": "cpu"}, "torch": {"cuda_available": True}}
    own = tuple(replace(rank(n, world=4), devices=()) for n in range(4))
    return scene(second, gpus(range(4)), foreign + own, (journal(4, second, facts),))


def starting_up(second):
    """The first half minute: imports, then every rank opens its context on GPU 0 by mistake of a library, then they spread."""
    born = EPOCH
    if second < 6:
        return scene(second, gpus([]), (), (journal(8, 0, state="starting"),))
    if second < 12:
        processes = tuple(replace(rank(n, use(0, 0.5, 5)), started_at=born, autograd_threads=()) for n in range(8))
        return scene(second, gpus([0]), processes, (journal(8, 0, state="starting"),))
    ready = min(8, second - 11)
    processes = tuple(replace(rank(n, use(n), second=second), started_at=born) for n in range(ready))
    return scene(second, gpus(range(ready)), processes, (journal(8, max(0, second - 30)),))


def single_starting_on_its_way_to_ddp(second):
    """A script that has one GPU at work for half a minute before it starts its ranks."""
    process = single(4000, use(0), second=second, started_at=EPOCH)
    return scene(second, gpus([0]), (process,)) if second < 29 else ddp_on_all(second)


def finished(second):
    return scene(second, gpus([]), (), (journal(4, 10, state="finished"),))


def other_users_hidden(second):
    hidden = tuple(
        Process(7000 + n, (use(n, 40),), uid=1001, user="bob", name="python", hidden=("environment", "command"))
        for n in range(2)
    )
    return scene(second, gpus(range(2)), hidden)


def cpu_job_on_a_virtual_machine(second):
    return virtual(second, {}, (single(4000, nvidia_open=False, torch_cuda_mapped=False, autograd_threads=()),), ())


def no_devices(second):
    return samples.snapshot(second, host=Host("laptop"), devices=(), processes=(), runs=(), points=())


def ddp_with_all_evidence(second):
    """What a real H100 shows at full load: the power cap stands, corrected errors, thermal time of a moment at the start."""
    devices = tuple(
        replace(
            device,
            throttle_reasons=("sw_power_cap",),
            power_w=696.0,
            sm_clock_mhz=1830.0,
            throttle_power_ns=second * 900_000_000,
            throttle_thermal_sw_ns=min(second, 2) * 100_000_000,
            throttle_thermal_hw_ns=0,
            throttle_power_brake_ns=0,
            persistence_enabled=True,
            ecc_corrected=12,
            ecc_uncorrected=0,
            remapped_rows_pending=False,
            remapped_rows_failed=False,
            pcie_rx_bytes_per_s=2e9,
        )
        for device in gpus(range(8))
    )
    environment = {
        "cuda_visible_devices_launch": None,
        "cuda_visible_devices_now": None,
        "device_order": None,
        "visible_uuids": [uuid(n) for n in range(8)],
    }
    facts = {
        "environment": environment,
        "frameworks": ["transformers", "accelerate"],
        "torch": {"cuda_built": True, "cuda_available": True, "device_count": 8},
        "model": {"wrapper": "DistributedDataParallel", "parameter_device": "cuda:0", "hf_device_map": None},
        "process_group": {"backend": "nccl", "world_size": 8},
    }
    threads = (("pt_nccl_watchdg", 1), ("NCCL Service", 2))
    processes = tuple(replace(rank(n, use(n), second=second), threads=threads) for n in range(8))
    shot = scene(second, devices, processes, (journal(8, second, facts),))
    host = replace(shot.host, memory_available_bytes=700 * GIB, oom_kills=2, shm_total_bytes=64 * GIB, cpu_pressure_percent=3.0)
    return replace(shot, host=host)


def masks_that_a_launcher_rewrites(second):
    """Each rank gets a GPU of its own in os.environ, before CUDA starts (Ray, submitit)."""
    base = journal(4, second)
    ranks = tuple(
        replace(
            r,
            facts={
                "environment": {
                    "cuda_visible_devices_launch": None,
                    "cuda_visible_devices_now": str(r.rank),
                    "visible_uuids": [uuid(r.rank).removeprefix("GPU-")],
                },
                "torch": {"device_count": 1, "cuda_available": True},
            },
        )
        for r in base.ranks
    )
    processes = tuple(rank(n, use(n), world=4, second=second) for n in range(4))
    return scene(second, gpus(range(4), 4), processes, (replace(base, ranks=ranks),))


def tensor_parallel_inference(second):
    """vLLM on four GPUs: spawned workers that have met, no launcher, no backward, layers by device_map elsewhere."""
    command = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)")
    parent = single(3990, command=("python", "-m", "vllm.entrypoints.openai.api_server"), autograd_threads=())
    workers = tuple(
        single(
            4000 + n, use(n), command=command, ppid=3990, autograd_threads=(), ancestors=(Ancestor(3990, "python"),),
            threads=(("pt_nccl_watchdg", 1),),
        )
        for n in range(4)
    )  # fmt: skip
    return scene(second, gpus(range(4), 8), (parent, *workers))


def inference_over_device_map(second):
    """A model too large for one GPU, answering requests: GPUs take turns on purpose."""
    turn = second // 3 % 4
    devices = tuple(samples.device(n, utilization_percent=90.0 if n == turn else 1.0) for n in range(4))
    process = single(4000, *(use(n, 60) for n in range(4)), autograd_threads=())
    return scene(second, devices, (process,))


def notebook_on_a_shared_machine(second):
    """One GPU of eight, the others of other people."""
    command = ("python", "-m", "ipykernel_launcher", "-f", "kernel.json")
    others = tuple(single(7000 + n, use(n), uid=1001, user="bob", environment=None, autograd_threads=()) for n in range(1, 8))
    return scene(second, gpus(range(8)), (single(4000, use(0), second=second, command=command), *others))


def run_that_failed_long_ago(second):
    """Its log is still listed; the machine is idle."""
    return scene(second, gpus([]), (), (journal(4, 10, state="failed"),))


SCENES = [
    ddp_with_all_evidence, masks_that_a_launcher_rewrites, tensor_parallel_inference, inference_over_device_map,
    notebook_on_a_shared_machine, run_that_failed_long_ago,
    ddp_on_all, ddp_untracked, single_beside_others, single_on_a_one_gpu_machine, gradient_accumulation, evaluation_on_rank_0,
    idle_machine, idle_desktop, inference_server, masked_inference_server, sweep, sweep_without_masks, chosen_in_gputop,
    mask_set_inside_python, virtual_ddp, virtual_single, virtual_script, virtual_data_parallel, mig,
    container_without_host_pids, starting_up, single_starting_on_its_way_to_ddp, finished, other_users_hidden,
    cpu_job_on_a_virtual_machine, no_devices,
]  # fmt: skip


@pytest.mark.parametrize("healthy", SCENES, ids=lambda healthy: healthy.__name__)
def test_healthy_machine_is_left_alone(healthy):
    for second, findings in enumerate(play(healthy, 150)):
        assert findings == (), f"at second {second}"


def test_readings_that_fail_now_and_then_neither_alarm_nor_silence():
    def flaky(second):
        shot = ddp_on_all(second)
        if second % 3:
            return shot
        return replace(
            shot, devices=tuple(replace(d, utilization_percent=None, state="stale", age_s=4.0) for d in shot.devices)
        )

    assert all(findings == () for findings in play(flaky, 90))


def test_what_cannot_be_judged_is_listed_with_the_missing_evidence():
    doctor = Doctor()
    play(inference_server, 20, doctor)
    assert [item.rule for item in doctor.abstained] == ["A01"]
    assert "import gputop" in doctor.abstained[0].needs
    play(idle_machine, 1, doctor, start=20)
    assert doctor.abstained == ()


def test_a_helper_process_between_launcher_and_rank_changes_nothing():
    def wrapped(second):
        processes = tuple(
            replace(rank(n, use(n), second=second), ancestors=(Ancestor(3998, "bash"), Ancestor(3999, "torchrun")))
            for n in range(8)
        )
        return scene(second, gpus(range(8)), processes, (journal(8, second),))

    assert play(wrapped, 30)[-1] == ()


def test_one_rank_record_is_enough_for_a_run():
    run = replace(journal(1, 0), ranks=(one_rank(),))
    assert play(lambda second: scene(second, gpus([]), (), (run,)), 10)[-1] == ()
