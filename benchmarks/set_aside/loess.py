"""Programs about images, sounds, series and recommendations, by students and small teams.

Their author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

PROGRAMS: tuple[Program, ...] = (
    # Every rank builds a DataLoader with shuffle=True over all 72,000 purchases, without a DistributedSampler, and both have
    # the
    # same seed: each rank prints 281 steps of 256 ("71936 rows of 72000") per epoch, with the same users and the same loss on
    # both ranks. Visible in the printed lines; py-spy shows RandomSampler, no DistributedSampler.
    Program(_case("bookshop-bpr", ("C05",)), with_torchrun("bookshop_bpr"), 2),
    # The manifest is sorted by duration and cut in contiguous halves: rank 1 has the long recordings and decodes each whole.
    # Rank 1: data 0.07-0.14 s, step 0.01 s; rank 0: data 0.01 s, step 0.07-0.14 s (it waits in the all-reduce). Printed by both
    # ranks; py-spy: rank 1 in __getitem__ (rfft, append), rank 0 in backward.
    Program(_case("court-hearings", ("F01",), acceptable=("F03", "D01")), with_torchrun("court_hearings"), 2),
    # The hills are dealt out by number, not by photographs: rank 0 has 830 (83 batches), rank 1 has 900 (90 batches). Rank 0
    # ends
    # its epoch after 10-20 s and waits in dist.barrier(), rank 1 waits in the all-reduce of batch 84. Output stops, no error.
    Program(
        _case("sheep-on-the-hill", ("C07",), acceptable=("C08", "G01", "F03")),
        with_torchrun("sheep_on_the_hill"),
        2,
        onset="last line",
    ),
    # Two spawned workers per loader, not persistent, start anew in each of the short epochs (training and validation): an epoch
    # takes about 6 s, its steps 1.8 s. Visible: new worker pids in each epoch, which import torch; printed times.
    Program(_case("substation-load", ("D06",), acceptable=("D01",)), with_python("substation_load", "--workers", "2")),
    # Keras on torch: the augmentation converts each pixel with colorsys in the main process (no workers). About 0.25 of the
    # 0.27 s of each batch are jitter() under __getitem__; py-spy shows rgb_to_hsv/hsv_to_rgb nearly always.
    Program(_case("tesserae-colors", ("D01",)), with_python("tesserae_colors")),
    # An unbounded lru_cache keeps every spectrogram under (recording, random start), which practically never comes again: 1.5
    # MB
    # more per step, 3-9 MB/s; RSS 0.45 GB at 10 s and growing all the time, without end. Visible in ps/top.
    Program(_case("machine-shop-sounds", ("H06",), acceptable=("E04", "H05")), with_python("machine_shop_sounds")),
    # CTC without zero_infinity: two of 3000 calls have fewer frames after subsampling than their labels need; their infinite
    # loss
    # makes all weights NaN near step 101 (5-10 s). Printed: ctc 0.15, then nan for ever; error rate 1.000.
    Program(_case("telephone-digits", ("J01",)), with_python("telephone_digits")),
    # Lightning: the training set lies sorted by class, and the loader does not shuffle. Train loss is a sawtooth (0.03 -> 5.9
    # at
    # each change of the class, every 20 batches); val_acc 0.100 of ten classes.
    Program(_case("instrument-families", ("J04",), acceptable=("J03", "J05")), with_python("instrument_families")),
    # Started by torchrun with 2 processes, but the yaml says distributed: false: no process group, no DDP, no sampler. Both
    # print
    # "rank 0 of 1" and each line twice, both train on all data and write the same checkpoint; no communication at all.
    Program(
        _case("bottle-caps", ("A18",), acceptable=("C03", "C05", "C14")),
        with_torchrun("bottle_caps", "--config", "bottle_caps.yaml"),
        2,
    ),
    # The sampler keeps all pairs it ever drew in a list and searches that list for each negative: 65 it/s at first, 10 it/s
    # after
    # 30 s, 5 it/s after a minute, and slower all the time. py-spy: PairSampler.batch nearly always.
    Program(_case("pantry-items", ("E10",), acceptable=("D01",)), with_python("pantry_items")),
    # Transformers Trainer: predictions (64, 1) against labels (64): mse_loss broadcasts to 64 x 64 (the warning is printed).
    # Loss
    # stays at the variance of the target (1.07), MAE at 23.3 minutes; with equal shapes 2.9 minutes after 3 epochs.
    Program(_case("geyser-temps", ("target_size",), acceptable=("J03",)), with_python("geyser_temps")),
    # 1633 = 51 x 32 + 1 training flakes: the last batch of the first epoch (after 20-50 s) has one sample, and BatchNorm1d
    # raises.
    Program(
        _case("snowflake-forms", ("batch_of_one",), acceptable=("exception", "LOG")),
        with_python("snowflake_forms"),
        onset="end",
    ),
    # Healthy: a GAN with R1; its losses go up and down and do not fall, the spectral distance falls (6.9 -> 1.5).
    Program(_case("healthy-foghorn-gan"), with_python("foghorn_gan")),
    # Healthy: DDP with intended accumulation (no_sync in 3 of 4 micro-batches), and rank 0 evaluates alone for about 2 s
    # after each
    # epoch of 4-6 s, while rank 1 waits in the barrier; accuracy 0.33 -> 0.99.
    Program(_case("healthy-shipyard-cranes"), with_torchrun("shipyard_cranes"), 2),
    # Healthy: fine-tuning of a head on a frozen encoder that stays in evaluation mode (Lightning); accuracy 0.33 -> 0.94.
    Program(_case("healthy-nursery-voices"), with_python("nursery_voices")),
    # Healthy: curriculum; each stage has a longer horizon, so steps get slower and the loss jumps, as is printed; the RMSE
    # over the
    # longest horizon falls (0.70 -> 0.26, not evenly).
    Program(_case("healthy-tidal-memory"), with_python("tidal_memory")),
    # Healthy: policy gradient with noisy returns (1.9 -> 5), a loss that says nothing, small steps between simulated guests.
    Program(_case("healthy-jukebox-bandit"), with_python("jukebox_bandit")),
    # Healthy: slides are decoded and kept during the first epoch, which is slow and lets the RSS grow by 280 MiB; then it is
    # flat.
    Program(_case("healthy-diatom-slides"), with_python("diatom_slides", "--config", "diatom_slides.json")),
)
