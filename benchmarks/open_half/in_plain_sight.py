"""Programs whose command lines and printed lines show what is wrong, or only seem to, open half, by the author of the rules on
them, written before these: a guard, no measure.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

PROGRAMS: tuple[Program, ...] = (
    # ---- rank and world size on the command line
    # The second terminal was forgotten.
    Program(_case("imagenet-rank-alone", ("G03",), "rank 1"), ("bash", "imagenet_rank_alone.sh")),
    # The rank that is here is not the first: nobody listens.
    Program(_case("imagenet-second-rank", ("G03",), "rank 0"), ("bash", "imagenet_second_rank.sh")),
    # One of two nodes, with two ranks of its own.
    Program(_case("imagenet-node-alone", ("G03",), "node 1"), ("bash", "imagenet_node_alone.sh"), 2),
    # The same by a launcher function, on the second machine.
    Program(_case("detectors-second-of-two", ("G03",), "node 0"), ("bash", "detectors_second_of_two.sh"), 2),
    # All ranks of the only node.
    Program(_case("healthy-imagenet-one-node"), ("bash", "imagenet_one_node.sh"), 2),
    # The second rank is started twelve seconds after the first.
    Program(_case("healthy-imagenet-late-rank"), ("bash", "imagenet_late_rank.sh"), 2),
    # The rank of a matrix, in a program that waits for half a minute before it trains.
    Program(_case("healthy-lora-rank-eight"), with_python("lora_rank_eight", "--rank", "8")),
    # ---- ranks that print equal losses
    # torchrun starts a script for one GPU: the same training twice.
    Program(_case("world-of-ones", ("C03",), acceptable=("C05", "A18")), with_torchrun("world_of_ones"), 2),
    # The same, started by a shell, with a log for each rank.
    Program(_case("ones-by-hand", ("C03",), acceptable=("C05", "A18")), ("bash", "ones_by_hand.sh"), 2),
    # DDP, and the same seed for the shuffling on both ranks.
    Program(_case("same-split-everywhere", ("C05",)), with_torchrun("same_split_everywhere"), 2),
    # The averaged loss, which both ranks print.
    Program(_case("healthy-prints-the-mean-everywhere"), with_torchrun("prints_the_mean_everywhere"), 2),
    # One rank prints each line twice by itself.
    Program(_case("healthy-two-handlers"), with_torchrun("two_handlers"), 2),
    # Bagging, with a launcher that only starts the processes.
    Program(_case("healthy-bag-of-two"), with_torchrun("bag_of_two"), 2),
    # ---- pauses at a fixed number of steps
    # Many copies of the weights and both moments, flushed to the disk, every sixty steps.
    Program(_case("snapshots-with-optimizer", ("E07",), acceptable=("D01",)), with_python("snapshots_with_optimizer")),
    # One small checkpoint now and then.
    Program(
        _case("healthy-snapshots-now-and-then"),
        with_python("snapshots_with_optimizer", "--save_steps", "2000", "--copies", "1", "--width", "256"),
    ),
)
