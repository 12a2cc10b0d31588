"""What frameworks do by themselves (A09, A10, A11, A16): named with their own fix, and only where it is a fault."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.diagnosis import Doctor
from tests.doctor.scenes import placement
from tests.doctor.scenes.base import gpus, ids, last_verdict, play, scene, single, use

# ---- A09


def test_a09_names_the_wrapper_and_gives_the_launch_line():
    finding = last_verdict(placement.trainer)
    assert (finding.severity, finding.confidence) == ("warning", "certain")
    assert finding.title == "The Trainer runs nn.DataParallel on 4 GPUs: one process, slower than DDP"
    assert finding.fix.startswith("torchrun --standalone --nproc-per-node=4 train.py --lr 0.1")
    assert "CUDA_VISIBLE_DEVICES=0 python train.py" in finding.fix


def test_a09_leaves_the_script_s_own_dataparallel_alone():
    assert "A09" not in ids(play(lambda second: placement.trainer(second, ("accelerate",)), 20)[-1])


def test_a09_from_threads_alone_is_likely():
    """transformers is imported, the wrapper was not seen, and backward runs on four devices of one process."""

    def threads(second):
        moving = tuple((n, 5.0 + second) for n in range(4))
        process = single(4000, *(use(n, 20) for n in range(4)), second=second, visible=4)
        return placement.tracked(
            second,
            {"frameworks": ["transformers", "transformers.trainer"]},
            replace(process, autograd_threads=moving),
            gpus(range(4), 4),
        )

    finding = last_verdict(threads, 30)
    assert (finding.id, finding.confidence) == ("A09", "likely")
    assert any("devices 0-3 of one process" in fact.text for fact in finding.evidence)


def test_a09_by_the_trainers_own_line():
    def logged(second):
        process = single(4000, use(0, 20), use(1, 20), second=second, visible=2)
        shot = placement.tracked(second, {}, process, gpus([0, 1], 2))
        return replace(
            shot, logs=(placement.said("hf_n_gpu", "Training with DataParallel so batch size has been adjusted to: 16"),)
        )

    finding = last_verdict(logged)
    assert (finding.id, finding.confidence) == ("A09", "certain")


# ---- A10


def test_a10_counts_the_places_of_the_device_map():
    finding = last_verdict(placement.device_map)
    assert (finding.confidence, finding.title) == ("certain", "Layers are spread over 4 GPUs, which work one at a time")
    assert 'device_map={"": int(os.environ["LOCAL_RANK"])}' in finding.fix


def test_a10_is_no_fault_of_inference():
    def generates(second):
        shot = placement.device_map(0)
        return replace(shot, sequence=second, time=shot.time + second, monotonic_s=shot.monotonic_s + second, runs=(
            replace(shot.runs[0], ranks=(replace(shot.runs[0].ranks[0], step=None),)),
        ), processes=(replace(shot.processes[0], autograd_threads=()),))  # fmt: skip

    assert "A10" not in {finding.id for findings in play(generates, 60) for finding in findings}


def test_a10_from_outside_needs_gpus_that_alternate():
    finding = last_verdict(placement.turns_seen_from_outside, 60)
    assert (finding.id, finding.confidence) == ("A10", "likely")
    assert any("correlation -1.00" in fact.text for fact in finding.evidence)

    def steady(second):
        devices = tuple(replace(device, utilization_percent=50.0) for device in gpus([0, 1], 2))
        return scene(second, devices, (single(4000, use(0, 20), use(1, 20), second=second, visible=2),))

    doctor = Doctor()
    assert play(steady, 60, doctor)[-1] == ()
    abstained = {item.rule: item for item in doctor.abstained}
    assert abstained["A10"].needs == "gputop run -- python train.py --lr 0.1"


# ---- A11


def test_a11_is_a_warning_where_a_framework_holds_back():
    finding = last_verdict(placement.notebook)
    assert (finding.severity, finding.confidence) == ("warning", "likely")
    assert "notebook_launcher(train, args=(), num_processes=4)" in finding.fix


def test_a11_gives_lightning_its_own_strategy():
    finding = last_verdict(lambda second: placement.notebook(second, ("lightning",)))
    assert 'strategy="ddp_notebook"' in finding.fix


def test_a11_is_certain_by_lightnings_own_line():
    def logged(second):
        line = "Trainer will use only 1 of 4 GPUs because it is running inside an interactive / notebook environment."
        return replace(placement.notebook(second, ()), logs=(placement.said("pl_notebook", line),))

    assert last_verdict(logged).confidence == "certain"


# ---- A16


def test_a16_gives_the_frameworks_own_command():
    finding = last_verdict(placement.yolo)
    assert finding.title == "Ultralytics trains on one GPU of 4: its default"
    assert finding.fix == "yolo train data=coco.yaml device=0,1,2,3"


def test_a16_of_a_script_that_imports_ultralytics():
    def script(second):
        process = single(4000, use(0), second=second, visible=4)
        return placement.tracked(second, {"frameworks": ["ultralytics"]}, process)

    assert last_verdict(script).fix == "model.train(..., device=[0, 1, 2, 3])"


def test_a16_of_mmengine_names_its_shell_script():
    finding = last_verdict(
        lambda second: placement.plain(second, command=("python", "tools/train.py", "configs/rtmdet.py", "--amp"))
    )
    assert (finding.id, finding.fix) == ("A16", "bash tools/dist_train.sh configs/rtmdet.py 4")


def test_a16_turns_the_mask_that_deepspeed_ignores_into_its_option():
    finding = last_verdict(placement.deepspeed_ignores)
    assert finding.confidence == "certain"
    assert finding.fix == "deepspeed --include localhost:2,3 train.py --epochs 90"


def test_a16_and_a11_abstain_by_their_own_names():
    doctor = Doctor()
    command = ("yolo", "train", "data=coco.yaml")
    play(lambda second: placement.plain(0, command=command, autograd_threads=()), 3, doctor)
    assert [item.rule for item in doctor.abstained] == ["A16"]
