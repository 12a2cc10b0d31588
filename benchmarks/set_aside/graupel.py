"""Eighteen faults, most of which show from outside, and fourteen healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict; causes are others than in ``sleet`` and ``hail``, or
come about in another way. Each comment says what goes wrong, and what somebody with ps, top, py-spy, /proc and the printed
output would see of it. What leaves no such trace has ``outside_trace=False``.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: launching and devices
    # "trainer.devices=2" is a setting that only a launcher would honor, and python starts the script: one process, which prints
    # "rank 0 of 1", on the first of two cards.
    Program(
        _case("keyword-spotting", ("A01",), acceptable=("A02", "A03", "A11", "A16")),
        ("bash", "keyword_spotting.sh"),
        2,
    ),
    # LOCAL_RANK=0 is exported for both ranks, as on nodes with one card. Both print "cuda:0"; the second card idles.
    Program(
        _case("cloud-masks", ("A07",), acceptable=("H03", "A03", "A02")),
        ("bash", "cloud_masks.sh"),
        2,
    ),
    # The address of each rank has a port of its own, so each waits for the other elsewhere. Stacks: init_process_group.
    Program(
        _case("retina-two", ("G03",), acceptable=("G01", "G02")),
        ("bash", "retina_two.sh"),
        2,
    ),
    # ---- faults: distributed training
    # The first rank is in a barrier before it builds an index; the other waits for that file before it gets there. Stacks:
    # barrier, and sleep in load_index.
    Program(
        _case("court-rulings", ("G02", "G01"), acceptable=("C08", "G03")),
        with_python("court_rulings"),
        2,
    ),
    # Both ranks write their features to one and the same file, which both have open (/proc/<pid>/fd).
    Program(
        _case("satellite-embeddings", ("C14",)),
        with_torchrun("satellite_embeddings"),
        2,
    ),
    # Wards with short notes are all rank 1's, and notes below a length are left out: it ends its month earlier, and waits in
    # all_gather_object, while rank 0 is in a backward. Both stand still after some seconds.
    Program(
        _case("clinical-notes", ("C07", "C08"), acceptable=("G01",)),
        with_torchrun("clinical_notes"),
        2,
        onset="last line",
    ),
    # ---- faults: balance between ranks
    # The archive is rank 0's, and rank 1 gets each batch through a slow line: rank 0 waits in its backward. Stacks: read, in
    # Remote.batch, on rank 1 only.
    Program(
        _case("glacier-front", ("F01",), acceptable=("D01", "F02", "F05", "F03")),
        with_torchrun("glacier_front"),
        2,
    ),
    # Papers are numbered by citations, and each rank has a range: rank 0's have many times as many neighbors. top shows it.
    Program(
        _case("citation-halves", ("F03", "F02"), acceptable=("F05",)),
        with_torchrun("citation_halves"),
        2,
    ),
    # ---- faults: data
    # 14 workers, as on a server, compute features in Python on two cores; torch warns of it. top: all of them, and main waits.
    Program(
        _case("whale-songs", ("D02",), acceptable=("D01", "D03")),
        with_python("whale_songs"),
    ),
    # Negatives are drawn in Python, through lists of 180 episodes, by the loop's own process. Stacks: negatives, in collate.
    Program(
        _case("podcast-ranker", ("D01",)),
        with_python("podcast_ranker"),
    ),
    # next(iter(loader)) in each step: two workers are forked for a single batch. ps: workers come and go; stacks: fork, join.
    Program(
        _case("pump-sensors", ("D06", "D01")),
        with_python("pump_sensors"),
    ),
    # ---- faults: time and memory
    # Each headline is compared with all that were kept, one by one. The printed rate falls; stacks: is_new.
    Program(
        _case("news-dedupe", ("E10",), acceptable=("D01",)),
        with_python("news_dedupe"),
    ),
    # ---- faults: hangs
    # Two bounded queues: from update 300 on, the learner sends more weights than it reads rollouts, until all are in put().
    Program(
        _case("warehouse-rl", ("G01",)),
        with_python("warehouse_rl"),
        onset="last line",
    ),
    # A worker ends after 200 episodes, without a word, and nobody starts it anew: recv() never returns. ps: a defunct child.
    Program(
        _case("tetris-workers", ("G04", "G01")),
        with_python("tetris_workers"),
        onset="last line",
    ),
    # ---- faults: numbers and learning
    # Batch norm never updates its statistics (momentum 0). Printed: accuracy near 1, and that of guessing for the validation.
    Program(
        _case("lung-sounds", ("J05",)),
        with_python("lung_sounds"),
    ),
    # The action with the least value is taken. The printed return falls as the values get better.
    Program(
        _case("elevator-dqn", ("J06",)),
        with_python("elevator_dqn"),
    ),
    # ---- faults that only the code shows
    # set_epoch gets the number of the first epoch, each time.
    Program(
        _case("street-numbers", ("C06",), outside_trace=False),
        with_torchrun("street_numbers"),
        2,
    ),
    # The student is a copy of a teacher in evaluation mode, and stays in it: no dropout.
    Program(
        _case("distil-tags", ("J07",), outside_trace=False),
        with_python("distil_tags"),
    ),
    # ---- healthy: learning that looks bad
    # A fine-tuning whose rate rises for 250 steps, and the loss with it, before it falls.
    Program(_case("healthy-voice-adapt"), with_python("voice_adapt")),
    # Two networks in turns of 20 steps; their losses go up and down.
    Program(_case("healthy-pottery-gan"), with_python("pottery_gan")),
    # The opponent is replaced by a better one as soon as it loses: the result falls back to 0.
    Program(_case("healthy-nim-selfplay"), with_python("nim_selfplay")),
    # Most training labels are wrong on purpose: the training loss hardly falls, and that of the validation is far below it.
    Program(_case("healthy-noisy-crowd"), with_python("noisy_crowd")),
    # A new task every 15 s: the loss jumps each time.
    Program(_case("healthy-task-stream"), with_python("task_stream")),
    # A search in which rates that are too high diverge, and are dropped.
    Program(_case("healthy-halving"), with_python("halving")),
    # The texts that it sorts, and prints, are the error messages of others.
    Program(_case("healthy-ticket-classifier"), with_python("ticket_classifier")),
    # ---- healthy: ranks and processes of unequal roles
    # A parameter server: no collectives, and workers with batches of 64 and of 512.
    Program(_case("healthy-ps-sgd"), with_python("ps_sgd")),
    # Gradients of 8 micro-batches are added, and then averaged by one collective.
    Program(_case("healthy-accum-by-hand"), with_python("accum_by_hand"), 2),
    # Rank 1 simulates, and rank 0 learns from what it gets.
    Program(_case("healthy-simulate-and-fit"), with_torchrun("simulate_and_fit"), 2),
    # Both ranks evaluate their half after each epoch, in less time than the epoch takes.
    Program(_case("healthy-captions-eval"), with_torchrun("captions_eval"), 2),
    # ---- healthy: jobs that pause and wait
    # Requests come in bursts.
    Program(_case("healthy-tts-server"), with_python("tts_server", "--demo")),
    # An exported notebook of a workshop: up to 40 s to talk between two cells.
    Program(_case("healthy-eda-cells"), with_python("eda_cells")),
    # The training waits while a signal is red, and says so.
    Program(_case("healthy-carbon-aware"), ("bash", "carbon_aware.sh")),
)
