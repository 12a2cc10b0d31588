"""Programs of an author who knew the rules by their titles only, set aside: launchers, frameworks and loops of many shapes."""

from __future__ import annotations

import sys
from functools import partial

from _stranger_programs import Program, with_python, with_torchrun
from _strangers import Case

_case = partial(Case, half="set aside")
_LAUNCH = (sys.executable, "-m", "torch.distributed.launch", "--standalone", "--nproc_per_node=2")

PROGRAMS: tuple[Program, ...] = (
    # ---- healthy: several ranks
    # The script starts its own ranks, one per device.
    Program(_case("healthy-spawned-vit"), with_python("spawned_vit"), 2),
    # The old launcher, and a log of JSON lines.
    Program(_case("healthy-tabular-launch"), (*_LAUNCH, "tabular_launch.py"), 2),
    # Each rank compares its pairs with those of all ranks.
    Program(_case("healthy-two-towers"), with_torchrun("two_towers"), 2),
    # ---- healthy: one process
    # Attention and a decoder that is taught less and less; its log is a table.
    Program(_case("healthy-reverses-strings"), with_python("reverses_strings", "--hidden", "80")),
    # A codebook follows by averages; dead codes start anew.
    Program(_case("healthy-vq-tiles"), with_python("vq_tiles")),
    # Samples are drawn from averaged weights now and then.
    Program(_case("healthy-flow-moons"), with_python("flow_moons")),
    # Neighbours are sampled from lists in tensors.
    Program(_case("healthy-cites-graph"), with_python("cites_graph")),
    # ---- healthy: reinforcement learning
    # Four processes step games, and the learner waits for the slowest.
    Program(_case("healthy-gridworld-a2c"), with_python("gridworld_a2c")),
)
