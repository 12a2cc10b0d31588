"""Twelve healthy programs that look odd, set aside: their author knew only the titles of the rules."""

from __future__ import annotations

from functools import partial

from _stranger_programs import Program, with_python, with_torchrun
from _strangers import Case

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- healthy: learning that looks bad
    # Four networks against each other; the losses swing, in the style of CycleGAN.
    Program(_case("healthy-night-to-day"), with_python("night_to_day")),
    # Two actors fill a queue, and the learner waits for it at times; its loss changes its sign.
    Program(_case("healthy-actors-and-queue"), with_python("actors_and_queue")),
    # The loss jumps up whenever the problems become harder.
    Program(_case("healthy-longer-sums"), with_python("longer_sums")),
    # Federated rounds: each clinic begins with the average, and so with a higher loss.
    Program(_case("healthy-rounds-of-clinics"), with_python("rounds_of_clinics")),
    # A stage of training thaws one layer more, and wraps the model anew.
    Program(_case("healthy-thaws-layer-by-layer"), with_torchrun("thaws_layer_by_layer"), 2),
    # ---- healthy: work of unequal kinds
    # Forty episodes of training and two hundred of testing, as the protocol says.
    Program(_case("healthy-many-tasks-few-shots"), with_python("many_tasks_few_shots")),
    # One rank is a teacher that only answers; the other trains, and waits for it.
    Program(_case("healthy-teacher-on-one-card"), with_torchrun("teacher_on_one_card"), 2),
    # Rank 0 packs the corpus for 18 s, and the other waits in a barrier.
    Program(_case("healthy-main-process-first"), with_torchrun("main_process_first"), 2),
    # ---- healthy: jobs that come and go, or wait
    # Two jobs at a time, one on each card; they end after 12 to 25 s.
    Program(_case("healthy-ablation-of-the-week"), ("bash", "ablation_of_the_week.sh"), 2),
    # A tiny model that stops early and ends well.
    Program(_case("healthy-patience-of-ten"), with_python("patience_of_ten")),
    # Requests come in bursts.
    Program(_case("healthy-batches-requests"), with_python("batches_requests")),
    # An exported notebook with pauses between its cells.
    Program(_case("healthy-exported-cells"), with_python("exported_cells")),
)
