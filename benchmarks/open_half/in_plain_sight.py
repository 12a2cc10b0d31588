"""Programs whose command lines and printed lines show what is wrong, or only seem to, open half, by the author of the rules on
them, written before these: a guard, no measure.
"""

from __future__ import annotations

from functools import partial

from _stranger_programs import Program, with_python
from _strangers import Case

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
)
