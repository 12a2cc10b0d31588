"""Logs as people paste them, set aside until the doctor misjudged them or could say more, and they were looked into."""

from __future__ import annotations

from functools import partial

from _strangers import ANY, Case

_case = partial(Case, half="open")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # torch.cuda.set_device(rank) with the global rank: 4 to 7 on a node of four GPUs.
    _case("pretraining-for-satellites", ("A08", "invalid_ordinal"), acceptable=_UNEXPLAINED),
    # The very first collective of all four ranks times out: peer-to-peer copies do not work on this machine.
    _case("voices-on-a-new-workstation", ("G02",), acceptable=("G01",)),
    # Xid 79: the GPU of rank 1 has fallen off the bus.
    _case("diffusion-as-a-service-unit", ("I05",), acceptable=("I04", "exception")),
    # The loss falls for a hundred steps and then grows a hundredfold.
    _case("little-gpt-on-recipes", ("J02",), acceptable=("J01",)),
    # 20 of the GPU's 24 GiB belong to another process.
    _case("depth-maps-on-a-3090", ("H03",), acceptable=("H02", "exception")),
    # Three utterances with an infinite CTC loss are left out; losses start at 600.
    _case("healthy-letters-from-audio"),
    # NCCL is ready, but the first all_reduce between two cards never ends.
    _case("two-a6000-and-a-fresh-install", ("G02", "G01")),
    # A traceback about a package that is only an option.
    _case("healthy-on-windows-without-triton"),
    # The validation loss rises from epoch 11 on.
    _case("nuclei-of-one-hospital", ("J05",)),
    # Rank 3 has five batches fewer and is at the evaluation when the others wait for gradients.
    _case("four-ranks-and-a-sharded-list-of-files", ("C07", "C08"), acceptable=("G01", "cpp_terminate")),
    # BCELoss gets a value outside of [0, 1].
    _case(
        "mask-decoder-on-the-third-batch",
        (ANY,),
        r"sigmoid|logits|0 and 1|\[0, ?1\]|between 0|0 to 1|0\.\.1|binary.cross",
        ("illegal", "exception"),
    ),
    # Kaggle restarted the notebook: its memory is full of cached images.
    _case("competition-notebook-version-12", ("H05",)),
    # The loss falls for 600 iterations, then grows without end.
    _case("elevation-from-stereo", ("J02",)),
    # Ultralytics with the CPU's build of torch.
    _case("ants-on-video", ("A12",)),
    # DETR's loop leaves when its loss is NaN, here on rank 1.
    _case("detr-on-insects", ("J01", "nan_loss")),
    # set_device(rank) on the second server.
    _case("pose-estimation-and-the-second-server", ("A08", "invalid_ordinal"), acceptable=_UNEXPLAINED),
    # Megatron finds a NaN on rank 13.
    _case("pretraining-with-two-stages-and-a-warm-up", ("J01", "nan_loss"), acceptable=("exception", "G04")),
    # NCCL talks through docker0, and the first broadcast never ends.
    _case("two-workstations-on-the-lab-switch", (ANY,), "docker0|NCCL_SOCKET_IFNAME|interface", ("G02", "G01", "G03")),
    # 13 s of waiting for 1.3 s of work.
    _case("vision-model-at-batch-120", ("D01",), acceptable=("D07",)),
    # Node 0 rebooted; node 1 only loses its peer.
    _case("what-is-left-of-node-one", ("G04",), acceptable=_UNEXPLAINED),
)
