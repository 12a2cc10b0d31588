"""Twelve faults of everyday trainings that people ask about, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Most are plain torch, by students, researchers and
hobbyists, and two thirds of them have one process. Each comment says what goes wrong, and what would be seen of it from
outside: by ps, top, py-spy and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: numbers and learning, one process
    # The forecast is (64, 1) and the target (64,). Printed: torch's warning, then an error that stays at the series' variance.
    Program(_case("maple-sap", ("target_size",), acceptable=("J03",)), with_python("maple_sap")),
    # A focal loss by hand: a probability rounds to 1, and 0 * log(0) is NaN. Printed: a falling loss, then nan.
    Program(_case("card-swipes", ("J01", "nan_loss")), with_python("card_swipes")),
    # The last batch is smaller than the hidden state of the LSTM. Printed: a traceback at the end of the first epoch.
    Program(_case("film-quips", ("shapes",), acceptable=("exception",)), with_python("film_quips"), onset="end"),
    # ---- faults: data, time and memory, one process
    # Workers are spawned anew for each short epoch, and import torch. ps: new pids every few seconds; printed: long epochs.
    Program(_case("lark-songs", ("D06",), acceptable=("D01",)), with_python("lark_songs")),
    # Each step registers two more forward hooks. Printed: the time of ten steps grows; py-spy: hook under most of them.
    Program(_case("duck-breeds", ("E10",)), with_python("duck_breeds")),
    # Lightning: outputs of the steps, with attention maps, are collected and never cleared. top: memory grows steadily.
    Program(_case("consonants", ("H06",), acceptable=("E04", "H05")), with_python("consonants")),
    # ---- faults: two ranks, or two GPUs
    # Written for torchrun, started with python. ps: one process without RANK; printed: "Not using distributed mode".
    Program(_case("hedgehog-cams", ("A01",), acceptable=("A02",)), with_python("hedgehog_cams"), 2),
    # --nodes is 2 by default, so two ranks wait for a world of four. py-spy: init_process_group in both, without an end.
    Program(_case("lidar-streets", ("G03",), acceptable=("G01", "G02", "G06")), with_python("lidar_streets"), 2),
    # The backbone is frozen while DDP wraps the model, and thawed later: its gradients are not averaged. Nothing of it is
    # printed but that it was thawed.
    Program(_case("butterfly-wings", ("C02",), outside_trace=False), with_torchrun("butterfly_wings"), 2),
    # ---- healthy: one process
    # One graph is the only batch: no loader, nothing to shuffle, and an evaluation after each step.
    Program(_case("healthy-museum-loans"), with_python("museum_loans")),
    # One batch is learned by heart as a check; then another network begins at a high loss.
    Program(_case("healthy-copper-coins"), with_python("copper_coins")),
    # The generated letters contain the words nan, Inf, killed, failed and error; the loss falls.
    Program(_case("healthy-letters-home"), with_python("letters_home")),
    # The negative log-likelihood of a flow falls through 0 and goes on below it.
    Program(_case("healthy-jellyfish-drift"), with_python("jellyfish_drift")),
    # ---- healthy: two ranks
    # Four micro batches an update, three of them under no_sync: gradients are averaged in every fourth backward.
    Program(_case("healthy-lava-flows"), with_torchrun("lava_flows"), 2),
)
