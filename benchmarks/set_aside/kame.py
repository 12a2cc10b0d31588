"""Twelve faults of everyday trainings by students and hobbyists, and six healthy programs that look odd.

Their author knew only the ids and titles of the rules, and no verdict. Frequent mistakes are frequent here, and two thirds of
the programs have one process. Each comment says what goes wrong, and what would be seen of it from outside: by ps, top, py-spy
and /proc, and in the printed output.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # ---- faults: input, one process
    # Speech clips are resampled, reverberated and turned into spectrograms in __getitem__, in the loop's own process: a batch
    # of 32 takes much longer to prepare than a step on it. py-spy: nearly always in __getitem__, under the loader's next.
    Program(_case("ferry-announcements", ("D01",)), with_python("ferry_announcements")),
    # ---- faults: numbers and learning, one process
    # Images and labels are shuffled apart from each other at the start of each epoch. The printed loss stays at log(10), and
    # the accuracy at 0.1.
    Program(_case("alphabet-soup", ("J03",)), with_python("alphabet_soup")),
    # The LSTM's output is (64, 1) and the target (64,): MSELoss compares each with each, so that the mean is learnt. torch
    # warns of the sizes in the output, and the printed error stays at the series' variance.
    Program(_case("household-load", ("target_size",), acceptable=("J03",)), with_python("household_load")),
    # A cross entropy by hand, with log(p) and log(1 - p): as soon as one p is 1.0, 0 * log(0) is NaN, after half a minute or
    # so. Printed: nan, in all later lines.
    Program(_case("lesion-unet", ("J01", "nan_loss")), with_python("lesion_unet")),
    # REINFORCE without the minus sign: good actions become rarer. The printed mean return falls from 55 to 20, and stays
    # there.
    Program(_case("balance-bot", ("J06",), acceptable=("J03",)), with_python("balance_bot")),
    # ---- faults: time, memory, logging and hangs, one process
    # forward() adds self loops to the graph that it was given and keeps them there: each call has more edges than the last,
    # and each epoch takes longer. Lines come more and more slowly, and memory grows with the edges. py-spy: index_add and
    # x[row].
    Program(_case("coauthors-gcn", ("E10",), acceptable=("E04", "H06")), with_python("coauthors_gcn")),
    # Lightning 2: what validation_step keeps in a list (images, predictions, depths) is never cleared, as
    # on_validation_epoch_end should do. top: memory grows by several MB/s, without end.
    Program(_case("hillside-depth", ("H06",), acceptable=("E04", "H05")), with_python("hillside_depth")),
    # Every 100 steps, 16 images are sampled in 1000 steps to look at, which takes as long as the training between. Printed
    # lines pause for seconds at regular intervals. py-spy: sample() in each pause.
    Program(_case("emoji-ddpm", ("E07",)), with_python("emoji_ddpm")),
    # Workers are joined before their queue is read. As the gecko learns, its rollouts become longer, and at some time they no
    # longer fit into the pipe: the worker waits for a reader, and the reader for the worker. Lines end; no process uses its
    # core. py-spy: join in the main process, and the queue's feeder thread in a write in the worker.
    Program(_case("gecko-walk", ("G01",)), with_python("gecko_walk"), onset="last line"),
    # ---- faults: two ranks
    # Each rank draws its batches by the same seed from the same text, so that both train on the same ones. Each prints its
    # own loss: it is the same number on both, in every line.
    Program(_case("kids-stories", ("C05",)), with_torchrun("kids_stories"), 2),
    # evaluate() sums its counts over all processes by all_reduce, but only rank 0 calls it, every ten epochs. Rank 0 waits in
    # it, and rank 1 in the next forward, where DDP broadcasts its buffers. py-spy shows both; lines end.
    Program(_case("hand-xrays", ("C08",), acceptable=("G01",)), with_python("hand_xrays"), 2, onset="last line"),
    # A script without a process group, started by torchrun: two processes, each of which trains its own model on all the
    # images. Each line is printed twice, with slightly different numbers, and there is no connection between the two in
    # /proc/net.
    Program(_case("garden-birds", ("A18",), acceptable=("C03", "C05")), with_torchrun("garden_birds"), 2),
    # ---- healthy: one process
    # DAgger: the student first learns two laps by heart. Then it drives itself, and what the teacher says to that is added:
    # the loss jumps up and stays far above where it was, while the agreement and the metres rise.
    Program(_case("healthy-kart-lessons"), with_python("kart_lessons")),
    # One small network after the other, each for one recording, all of it in each step: no loader, no evaluation, and an
    # error that begins anew every few seconds. The learning rate of each ends at 0.
    Program(_case("healthy-church-bells"), with_python("church_bells")),
    # Mixup or cutmix in every batch, with smoothed labels: the training loss stays near 1 and its accuracy near one half,
    # while those of the validation are near perfect.
    Program(_case("healthy-cactus-photos"), with_python("cactus_photos")),
    # ---- healthy: two ranks
    # PPO by two ranks with their own yards: a long rollout without any communication, then 16 steps whose gradients are
    # averaged by one flat all_reduce each. No wrapper, and a policy loss around 0.
    Program(_case("healthy-delivery-grid"), with_torchrun("delivery_grid"), 2),
    # A GAN with two wrapped networks and two optimizers per step; the losses swing against each other.
    Program(_case("healthy-flag-sketches"), with_torchrun("flag_sketches"), 2),
    # Barlow Twins: inside the wrapped model, the correlations are summed over the ranks in each step, forward and backward.
    # No labels, no evaluation, and a loss that begins near 80.
    Program(_case("healthy-forest-tiles"), with_python("forest_tiles"), 2),
)
