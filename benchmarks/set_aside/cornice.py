"""Twelve faults of everyday training scripts, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. The programs are those of engineers and data scientists:
frameworks and trainer classes of their own, options in files, exported notebooks. Two thirds have one process and one GPU. Each
comment says what goes wrong, and what would be seen of it from outside: by ps, top, py-spy and /proc, and in what is printed.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: data and labels, one process
    # Each item unpacks a compressed recording of three minutes for one second of it. py-spy: zlib under __getitem__, nearly
    # always, in the main thread.
    Program(_case("choir-practice", ("D01",)), with_python("choir_practice")),
    # Lightning: the loader's worker is spawned anew for each epoch of a second. ps: its pid changes every few seconds;
    # py-spy: it imports; Lightning itself warns of persistent_workers.
    Program(_case("lemon-trees", ("D06",), acceptable=("D01",)), with_python("lemon_trees")),
    # The loader does not shuffle files that lie in one folder per class. Printed: the loss falls within each class, and jumps
    # to 2 or 3 where the next one begins, about once a second.
    Program(_case("jam-labels", ("J04",), acceptable=("J03",)), with_python("jam_labels")),
    # Keras: the training photos are scaled to -1..1, those of the validation are not. Printed: the accuracy is near 1 soon,
    # val_accuracy is 0.15 to 0.35, and val_loss grows to a thousand.
    Program(_case("beach-glass", ("J05",)), with_python("beach_glass")),
    # ---- faults: losses, one process
    # The loss is a mean over the entities of a batch; the first batch without any is 0/0. Printed: loss nan, from then on.
    Program(_case("ship-manifests", ("J01", "nan_loss")), with_python("ship_manifests")),
    # ---- faults: memory, time and launch, one process
    # Every 25 steps, a checkpoint is written through gzip. Printed: every fifth line is seconds late; py-spy: gzip under save.
    Program(_case("tidal-flats", ("E07",)), with_python("tidal_flats")),
    # A script for DDP is started with python instead of torchrun, though two GPUs are there. Printed: world size 1; ps: one
    # process.
    Program(_case("mail-sorting", ("A01",), acceptable=("A02",)), ("bash", "mail_sorting.sh"), 2),
    # ---- faults: two ranks
    # The loader has no DistributedSampler, and all ranks the same seed. Printed by each rank: as many batches as the whole data
    # set has, and the same losses as the other's.
    Program(_case("cattle-tags", ("C05",)), with_torchrun("cattle_tags"), 2),
    # Rank 0 computes the spectrum of each weight in each step, for a dashboard. py-spy: svdvals on rank 0, all-reduce of the
    # gradients on rank 1.
    Program(_case("ant-trails", ("F05",), acceptable=("F02", "F03")), with_python("ant_trails"), 2),
    # ---- healthy: one process
    # Keras with mixup, noise and dropout: the validation is much better than the training, all the time.
    Program(_case("healthy-paper-planes"), with_python("paper_planes")),
    # A DQN whose loss rises with its returns; its buffer fills.
    Program(_case("healthy-crane-yard"), with_python("crane_yard")),
    # Full-batch training on one graph: the same rows in each step, a step per epoch, and an evaluation every ten.
    Program(_case("healthy-trade-routes"), with_python("trade_routes")),
    # The Trainer with strong label smoothing: the loss falls to its floor, 1.18, and stays there; the accuracy is near 1.
    Program(_case("healthy-number-words"), with_python("number_words")),
    # ---- healthy: two ranks
    # Gradients are accumulated over eight small batches: seven of them without communication.
    Program(_case("healthy-rental-bikes"), with_torchrun("rental_bikes"), 2),
    # Rank 0 prepares a corpus, and rank 1 waits for it in a barrier for some seconds; then both train.
    Program(_case("healthy-old-newspapers"), with_torchrun("old_newspapers"), 2),
)
