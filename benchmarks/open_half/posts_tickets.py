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
)
