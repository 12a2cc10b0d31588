"""Fourteen faults, most of which show from outside, and twelve healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Each comment says what goes wrong, and what somebody
with ps, top, py-spy and the printed output would see of it. What leaves no such trace has ``outside_trace=False``. The
programs are in the style of lab code: wrappers, YAML files, exported notebooks, actors, and restarts by a shell.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")
_ENDED = ("exception", "LOG", "G04", "child_failed", "elastic_exit", "gloo_peer", "cpp_terminate")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching and devices
    # A shell reads "gpus: [0, 1]" from YAML, so the mask begins with a bracket and hides all cards. ps shows it; cards idle.
    Program(
        _case("river-levels", ("A05",), acceptable=("A03", "A12")),
        ("bash", "river_levels.sh"),
        2,
    ),
    # Two seeds, one per card as intended; a default of 0 puts both on the first card, and the second idles.
    Program(
        _case("polymer-seeds", ("H03",), acceptable=("A07",)),
        ("bash", "polymer_seeds.sh"),
        2,
    ),
    # "taskset -c 0", from a latency benchmark, binds the launcher, so both ranks share one core. ps and taskset -p show it.
    Program(
        _case("market-depth", ("D03",), acceptable=("D02",)),
        ("sh", "market_depth.sh"),
        2,
    ),
    # "NODES=2" in the settings of all jobs, and one node: torchrun waits for the other. No rank starts; stacks: rendezvous.
    Program(
        _case("dialects", ("G06",), acceptable=("G03", "G01")),
        ("bash", "dialects.sh"),
        2,
    ),
    # ---- faults: communication
    # set_epoch is missing: each epoch has the same order, in which a rank sees the same half.
    Program(
        _case("coin-grades", ("C06",), outside_trace=False),
        with_torchrun("coin_grades"),
        2,
    ),
    # ---- faults: stragglers
    # Rank 0 decodes six samples of each batch by a beam search in Python. top: 100 % against 15 %; stacks: beam_search.
    Program(
        _case("digits-ctc", ("F05", "F02"), acceptable=("F03",)),
        with_torchrun("digits_ctc"),
        2,
    ),
    # ---- faults: data
    # Two workers are spawned anew for each epoch of 12 batches: importing takes longer than training. ps: workers come and go.
    Program(
        _case("bat-detector", ("D06",), acceptable=("D01", "E07")),
        with_python("bat_detector"),
    ),
    # One request after the other, of 35 ms each, for every sample of a batch. Stacks: urlopen, recv; top: idle.
    Program(
        _case("sentinel-tiles", ("D01",), acceptable=("D07",)),
        with_python("sentinel_tiles"),
    ),
    # ---- faults: time and memory
    # The history is written as a whole in each step. The printed rate falls; stacks: json.
    Program(
        _case("telco-subscribers", ("E10",)),
        with_python("telco_subscribers"),
    ),
    # A thread cuts patches faster than they are used, into a queue without a limit. Memory of the process grows all the time.
    Program(
        _case("fluid-patches", ("H06",), acceptable=("E04", "H05")),
        with_python("fluid_patches"),
    ),
    # ---- faults: hangs
    # Both actors die of an IndexError (the schedule is shorter than the training), and the learner waits for their episodes.
    Program(
        _case("snake-actors", ("exception", "G04", ANY), r"IndexError|tuple index", ("G01", *_ENDED)),
        ("sh", "snake_actors.sh"),
        onset="last line",
    ),
    # ---- faults: crashes that come again and again
    # The state of the wrapped model is loaded into the bare one; a shell starts it again and again. The exception says it.
    Program(
        _case("well-logs", ("C13",), acceptable=_ENDED),
        ("bash", "well_logs.sh"),
    ),
    # ---- faults: numbers and learning
    # "max_grad_norm: 0" was meant to switch clipping off, and sets each gradient to 0. The printed loss does not move.
    Program(
        _case("typist-lm", ("J03",)),
        with_python("typist_lm", "typist_lm.yaml"),
    ),
    # from_pretrained returns the model in evaluation mode, and nobody calls train(): no dropout.
    Program(
        _case("clause-tagger", ("J07",), outside_trace=False),
        with_python("clause_tagger"),
    ),
    # ---- healthy: learning that looks bad
    # Levels get harder as soon as the agent succeeds: the return dips, and recovers.
    Program(_case("healthy-climbs-levels"), with_python("climbs_levels")),
    # Most of the target is noise: the loss is flat after a minute, while the rate falls to nearly nothing.
    Program(_case("healthy-heat-pump"), with_python("heat_pump")),
    # Prices in the order of time, with no shuffling; errors jump when the market changes.
    Program(_case("healthy-walk-forward"), with_python("walk_forward")),
    # ---- healthy: wrappers and modes that look wrong
    # FSDP: the parameters are sharded, and nothing is wrapped in DDP.
    Program(_case("healthy-sharded-lm"), with_torchrun("sharded_lm"), 2),
    # ZeRO: the optimizers hold different halves, which are gathered on rank 0 now and then.
    Program(_case("healthy-zero-translator"), with_torchrun("zero_translator"), 2),
    # Batch norms stay in evaluation mode while the rest trains, and the stem is frozen. Lightning.
    Program(_case("healthy-vehicles-frozen"), with_python("vehicles_frozen")),
    # Long and short batches, at the same time on both ranks.
    Program(_case("healthy-buckets-asr"), with_torchrun("buckets_asr"), 2),
    # ---- healthy: jobs that pause, wait, share and come again
    # 20 s of work and 8 s of rest, as announced: the box has no fan.
    Program(_case("healthy-attic-box"), with_python("attic_box")),
    # Inference on what arrives in a folder, and sleep in between.
    Program(_case("healthy-inbox"), with_python("inbox", "--demo")),
    # Two small jobs share a card on purpose, and then the next two.
    Program(_case("healthy-two-per-card"), ("bash", "two_per_card.sh")),
    # Population-based training: no collectives; the worse member copies the better one, so its loss jumps down.
    Program(_case("healthy-breeds-rates"), ("bash", "breeds_rates.sh"), 2),
    # Slices of 50 s: each job saves, ends and is followed by one that resumes.
    Program(_case("healthy-spot-slices"), ("bash", "spot_slices.sh")),
)
