"""Programs that were set aside until the doctor misjudged them and they were looked into. Most led to a correction."""

from __future__ import annotations

import sys
from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")
_ACCELERATE = (sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--main_process_port=0")
_FAILED = ("exception", "LOG", "G04", "child_failed", "elastic_exit", "gloo_peer", "cpp_terminate")
"""What is said of a run that failed, without its cause."""

PROGRAMS: tuple[Program, ...] = (
    # Words are cleaned with two hundred expressions in the collate function, by the process that trains.
    Program(_case("hf-collates", ("D01",)), with_python("hf_collates", "--epochs", "50")),
    # Rank 1 stops early and writes its predictions, while rank 0 is in the next backward.
    Program(
        _case("stops-alone", ("G01", "C07"), acceptable=("C08", "G04")),
        with_python("stops_alone", "--patience", "3"),
        2,
        "last line",
    ),
    # Sorted by length: rank 1 has the longer half of the recordings.
    Program(_case("sorted-lengths", ("F03", "F02"), acceptable=("F01", "F05")), with_python("sorted_lengths"), 2),
    # The loss grows with the weight of the divergence, which is raised for sixty epochs.
    Program(_case("healthy-beta-vae"), with_python("beta_vae", "--beta-max", "4")),
    # Active learning: a new model each round, and a pool that is scored between.
    Program(_case("healthy-asks-the-annotator"), with_python("asks_the_annotator")),
    # An online learner waits for new data most of the time.
    Program(_case("healthy-waits-for-the-plant"), with_python("waits_for_the_plant")),
    # ---- of the fresh batch
    # The wrapper says WORLD_SIZE=1 to both: two runs that learn the same on their own.
    Program(_case("two-runs-of-one", ("A18",), acceptable=("C05", "C03")), ("bash", "two_runs_of_one.sh"), 2),
    # --gpu_ids is 0 by default: DataParallel over one of two devices.
    Program(
        _case("parallel-of-one", ("B12", "A01", "A02"), acceptable=("B04", "A12")),
        with_python("parallel_of_one", "--batchSize", "8"),
        2,
    ),
    # A mask of the old workstation, which had one card, is given to both ranks.
    Program(_case("copied-profile", ("A07",), acceptable=("A03", "A02")), ("sh", "copied_profile.sh"), 2),
    # taskset with a variable that nobody counts up: both ranks on core 0.
    Program(_case("pinned-both", ("D03",), acceptable=("D02", "F04")), ("bash", "pinned_both.sh"), 2),
    # Three ranks are announced, and two are started.
    Program(
        _case("world-of-three", ("G03",), "WORLD_SIZE|of 3|rank 2|3 ranks", ("G01", "G02")),
        ("sh", "world_of_three.sh"),
        2,
        onset="last line",
    ),
    # Each episode of three batches starts two workers.
    Program(_case("workers-every-epoch", ("D06",), acceptable=("D01",)), with_python("workers_every_epoch")),
    # A checkpoint in each step, to the disk.
    Program(_case("saves-for-safety", ("E07",), r"checkpoint|sav(e|ing)"), with_python("saves_for_safety")),
    # Two runs, one port.
    Program(
        _case(
            "both-at-29577", ("G03", "addr_in_use"), "port|taken|in use", ("exception", "LOG", "child_failed", "elastic_exit")
        ),
        ("bash", "both_at_29577.sh"),
        2,
    ),
    # The state of an LSTM keeps its graph: each step goes back to the first one.
    Program(_case("state-never-detached", ("E10",), acceptable=("E04", "H06")), with_python("state_never_detached")),
    # A column of zeros is divided by its standard deviation, once its district is known.
    Program(_case("constant-column", ("J01", "nan_loss")), with_python("constant_column")),
    # The loss is made anew from numbers, so that no gradient reaches the network.
    Program(_case("rewraps-its-loss", ("J03",)), with_python("rewraps_its_loss", "--lr", "2e-3")),
    # [100, 1] against [100]: the warning says it, and the loss stays at the variance.
    Program(_case("broadcasts-its-target", (ANY,), "broadcast|target size", ("J03",)), with_python("broadcasts_its_target")),
    # The file is read to its end for each sample, in the process that trains. Stacks: __getitem__, nearly always.
    Program(_case("rows-by-readlines", ("D01",)), with_python("rows_by_readlines")),
    # 484 small tensors are reduced one by one. Stacks: all_reduce; little work is done by either rank.
    Program(
        _case("reduces-each-tensor", ("E09", "E06", ANY), "one by one|each (gradient|tensor)|by hand|communicat", ("E02",)),
        (*_ACCELERATE, "reduces_each_tensor.py"),
        2,
    ),
    # Two members of an ensemble: no gradient is averaged, and both see all the data.
    Program(_case("healthy-ensemble-of-two"), with_python("ensemble_of_two"), 2),
    # Each round begins with a new model; then the pool is scored.
    Program(_case("healthy-asks-the-oracle"), with_python("asks_the_oracle")),
    # ---- of the newest batch
    # Each spawned process takes a free port, and so another one. Stacks: both wait for the store, at other ports.
    Program(
        _case("port-of-its-own", ("G03", "G01", ANY), r"\bport\b|MASTER_PORT", ("G02", "G06", "LOG", "rdzv_connection")),
        with_python("port_of_its_own"),
        2,
    ),
    # Classes come one after the other, as there is no shuffle: the loss falls to 0 and jumps, and the accuracy stays at 12 %.
    Program(
        _case(
            "leaf-baseline", (ANY,), r"shuffl|sorted|order of (the )?(data|samples|batches)|same order", ("J02", "J03", "J01")
        ),
        with_python("leaf_baseline"),
    ),
    # An address is cut to 32 bits on its way to libc. bash says: Segmentation fault.
    Program(
        _case(
            "fast-reset",
            ("signal_crash", "python_fatal", ANY),
            r"SIGSEGV|segmentation|native code",
            ("exception", "LOG", "G04", "killed"),
        ),
        ("bash", "fast_reset.sh"),
        onset="end",
    ),
    # Bad trials are ended by the search.
    Program(_case("healthy-prunes-trials"), with_python("prunes_trials")),
    # Two seeds are started side by side, and neither gets a mask: both are on the first card. nvidia-smi shows it.
    Program(
        _case("both-seeds", ("H03", "A07"), acceptable=("A01", "A02", "A03", "A16", "A18")),
        ("bash", "both_seeds.sh"),
        2,
    ),
    # A trial's output goes into a pipe that nobody reads until it has ended: it stops when 64 KiB are full.
    Program(_case("trials-in-a-row", ("G01",), acceptable=("LOG",)), with_python("trials_in_a_row"), onset="last line"),
    # One rank waits in a barrier and holds a lock; the other waits for the lock. Stacks show both.
    Program(
        _case("prepares-once", ("G01",), acceptable=("C08", "G02", "G03")),
        with_torchrun("prepares_once"),
        2,
        onset="last line",
    ),
    # Anomaly detection is on. The settings and a warning of torch's are printed.
    Program(_case("tides", ("E05",)), with_python("tides")),
    # The gradient of a table of 180 000 items is dense: 46 MB for 128 rows. Traffic on the loopback; stacks: backward.
    Program(_case("whole-vocabulary", ("E06",), acceptable=("C12", "C16", "E02")), with_torchrun("whole_vocabulary"), 2),
    # Weights in bfloat16 are larger than 256 updates: they stay as they are, and so does the printed loss.
    Program(_case("saves-half-the-memory", ("J03",)), with_python("saves_half_the_memory")),
    # The sign of the policy's loss is wrong: the printed return falls from 20 to 9.
    Program(
        _case("balances-a-pole", (ANY,), r"\b(returns?|rewards?)\b|not learn|does not improve|gets? worse", ("J02", "J03")),
        with_python("balances_a_pole"),
    ),
    # The average of the weights is never written back: the training loss falls, and val_loss and val_acc stay.
    Program(
        _case("skin-lesions", (ANY,), r"val_(loss|acc)|validation (loss|accuracy)|\bEMA\b|averaged? (model|weights)", ("J03",)),
        with_python("skin_lesions"),
    ),
    # gzip is pinned to the core of rank 1, which gets half of it. top shows both, and rank 0 waits in its backward.
    Program(
        _case("export-on-core-one", ("F02",), acceptable=("D02", "D03", "F03", "F04", "F05")),
        ("bash", "export_on_core_one.sh"),
        2,
    ),
    # Memory grows during the first epoch, up to a size that is printed.
    Program(_case("healthy-keeps-decoded-pictures"), with_python("keeps_decoded_pictures")),
    # The teacher's names begin with "module.", and strict=False hides it: the missing keys and its accuracy are printed.
    Program(
        _case(
            "teacher-of-strangers",
            ("C13", "module_prefix", "state_dict_names", ANY),
            r"module\.|missing|state_dict|strict",
            ("J03",),
        ),
        ("bash", "teacher_of_strangers.sh"),
        2,
    ),
    # --world-size 2, and only the process with rank 0 was started. Stacks: init_process_group.
    Program(
        _case("waits-for-its-world", ("G03",), acceptable=("G01", "G02", "G06", "A02")),
        ("bash", "waits_for_its_world.sh"),
        2,
        onset="last line",
    ),
    # Squared errors of prices beyond the range of float16: the printed loss becomes inf and then nan.
    Program(
        _case("half-prices", ("J01", "nan_loss"), acceptable=("J02",)),
        with_python("half_prices"),
    ),
    # Two jobs at a time, one on each card; they end after 12 to 25 s.
    Program(_case("healthy-ablation-of-the-week"), ("bash", "ablation_of_the_week.sh"), 2),
    # A formula in a shell script puts two independent jobs on the first card; the second idles. ps and nvidia-smi show it.
    Program(
        _case("three-seeds", ("H03",), acceptable=("A07", "A03", "A16")),
        ("bash", "three_seeds.sh"),
        2,
    ),
    # The thread that writes previews has ended at its quota, and the full queue blocks the loop. Stacks: Queue.put.
    Program(
        _case("cell-paint", ("G01",)),
        with_python("cell_paint"),
        onset="last line",
    ),
    # A sign is wrong: the policy learns to lose. The printed return falls.
    Program(
        _case("hopper1d", ("J06",), acceptable=("J02", "J03")),
        with_python("hopper1d"),
    ),
    # Only the training data is scaled. The printed validation loss stays in the thousands, and the training loss falls.
    Program(
        _case("heat-demand", ("J05",)),
        with_python("heat_demand"),
    ),
    # A curriculum with more noise and more classes at each level: the loss jumps up, as the output says.
    Program(_case("healthy-noisy-shapes"), with_python("noisy_shapes")),
    # The launcher sets PMI_RANK, the script reads RANK or SLURM_PROCID: both copies print "Not using distributed mode",
    # world_size=1 and the same losses, each on its own card.
    Program(
        _case("spectral-mae", ("A18",), acceptable=("A01", "C03")),
        ("bash", "spectral_mae.sh"),
        2,
    ),
    # join() before get(): the child cannot end until somebody reads its queue. Stacks: join, and a pipe's write.
    Program(
        _case("protein-contacts", ("G01",)),
        ("bash", "protein_contacts.sh"),
        onset="last line",
    ),
    # Gradients are exchanged as pickled objects: more than half of each step. Stacks: all_gather_object, pickle.
    Program(
        _case("crowd-counts", ("E09",), acceptable=("E06",)),
        with_python("crowd_counts"),
        2,
    ),
    # The replay buffer is compressed every 400 updates, for as long as these take. Stacks: savez_compressed.
    Program(
        _case("drone-hover", ("E07",), acceptable=("D07",)),
        with_python("drone_hover"),
    ),
    # Stages are frozen when DDP wraps the model, and thawed later: DDP never averages their gradients. The loss falls.
    Program(
        _case("herbarium", ("C02", "C15"), acceptable=("C01", "C03"), outside_trace=False),
        with_torchrun("herbarium"),
        2,
    ),
    # Samples of a model of log lines: "out of memory", "loss nan" and "Xid" are what it has learned to write.
    Program(_case("healthy-syslog-lm"), with_python("syslog_lm")),
    # Anomaly detection was left on. Torch warns of it; a step of many small operations takes four times as long.
    Program(
        _case("stiff-odes", ("E05",)),
        with_python("stiff_odes"),
    ),
    # 1729 samples in batches of 32: the last batch has one, which batch norm refuses. torchrun restarts it from the beginning.
    Program(
        _case("bearing-vibration", ("exception", ANY), r"more than 1 value|batch ?norm|last batch|drop_last", _FAILED),
        ("bash", "bearing_vibration.sh"),
    ),
    # The advantage has the wrong sign: the policy learns to sail away. The printed return falls from -9 to -30.
    Program(
        _case("harbour-pilot", ("J06",)),
        with_python("harbour_pilot"),
    ),
    # Labels are numbered by first appearance in each of two tables. Printed: accuracy 1.0, validation at that of guessing.
    Program(
        _case("alpine-flowers", ("J05",)),
        with_python("alpine_flowers"),
    ),
    # The table is sorted by label, and the loader does not shuffle. Only means of epochs are printed.
    Program(
        _case("meter-readings", ("J04",), outside_trace=False),
        with_python("meter_readings"),
    ),
    # A review of rare words only is empty once it is cleaned, and a softmax over nothing is nan. The loss is printed as nan.
    Program(
        _case("reviews-pool", ("J01", "nan_loss")),
        with_python("reviews_pool"),
    ),
    # zero_grad() stands between backward() and step(): the printed errors do not move.
    Program(
        _case("bike-demand", ("J03",)),
        with_python("bike_demand"),
    ),
    # The dense gradient of two embeddings, 18 MB, is averaged in each step, for 64 pairs. Stacks: all_reduce, synchronise.
    Program(
        _case("movie-towers", ("E06", "E09"), acceptable=("C12", "C16")),
        with_python("movie_towers"),
        2,
    ),
    # A cache without a limit keeps crops at random places, which never come again. Memory of the process grows all the time.
    Program(
        _case("radar-crops", ("H06", "E04"), acceptable=("H05",)),
        with_python("radar_crops"),
    ),
    # The loop itself copies each checkpoint to a file server, at 1.2 MB/s: about as long as the steps in between. Stacks: push.
    Program(
        _case("sign-language", ("E07",)),
        with_python("sign_language"),
    ),
    # The world's size is read as the module is imported, before the group exists: 1, so nothing is wrapped.
    Program(
        _case("plankton", ("C03",), outside_trace=False),
        with_torchrun("plankton"),
        2,
    ),
    # A settings file that is meant for tests, too, hides all cards: CUDA_VISIBLE_DEVICES=-1. Printed: "on cpu"; cards idle.
    Program(
        _case("fjord-oxygen", ("A12", "A03"), acceptable=("A05",)),
        ("sh", "fjord_oxygen.sh"),
        2,
    ),
    # The batch is divided by the number of cards twice: two images per card, and 20 MB of gradients. Stacks: backward, waiting.
    Program(
        _case("moth-traps", ("C12", "E06"), acceptable=("C16", "E02", "E09")),
        with_torchrun("moth_traps"),
        2,
    ),
    # Weights and gradients, 17 MB, travel as pickles through pipes in each step of 24 records. Stacks: send and recv.
    Program(
        _case("quarry-pair", ("E06", "E09"), acceptable=("F05",)),
        with_python("quarry_pair"),
        2,
    ),
    # Children are joined before their results are read: from the sixth round on, these do not fit into the pipe.
    Program(
        _case("peat-cores", ("G01",), acceptable=("G04",)),
        ("timeout", "285", *with_python("peat_cores")),
        onset="last line",
    ),
    # Features and labels are shuffled separately. The printed loss ("pérdida") stays at log(24).
    Program(
        _case("vino-tinto", ("J03",)),
        with_python("vino_tinto"),
    ),
    # No loss balances the experts, so nearly all tokens travel to one rank's. top: one rank computes, the other waits.
    Program(
        _case("ferry-experts", ("F03", "F02"), acceptable=("F05",)),
        with_torchrun("ferry_experts"),
        2,
    ),
    # The buffer that shuffles holds 100 crops, and each file has 640 of one scribe. Printed: a new file, and the loss jumps.
    Program(
        _case("handwriting-rolls", ("J04",)),
        with_python("handwriting_rolls"),
    ),
    # A replay buffer for a million transitions of two stacks of frames each, as floats. The memory grows all the time.
    Program(
        _case("curling-dqn", ("H06",), acceptable=("E04", "H05")),
        with_python("curling_dqn"),
    ),
    # Each sheet is read from a compressed archive, from its beginning on. Stacks: gzip, in __getitem__.
    Program(_case("pressed-leaves", ("D01",)), with_python("pressed_leaves")),
    # torchrun starts two ranks, and the script reads its rank from options, whose defaults are 0 of 1. Both print
    # "rank 0 of 1", and then the same lines: each trains on all of the data.
    Program(_case("fishing-nets", ("A18",), acceptable=("A01", "C01", "C03", "C05")), with_torchrun("fishing_nets"), 2),
    # The validation is divided by 255 twice. Printed: its accuracy stays near that of guessing.
    Program(_case("sea-ice", ("J05",)), with_python("sea_ice")),
    # Gradients are set to zero between the backward and the step. The printed loss does not move.
    Program(_case("yarn-kinds", ("J03",)), with_python("yarn_kinds")),
    # The root of a distance of 0, of a pair that is twice the same, has an infinite gradient. Printed: nan, after step 400.
    Program(_case("cover-songs", ("J01", "nan_loss")), with_python("cover_songs")),
    # Each rank meets the other in a file named after its own pid. Stacks: init_process_group.
    Program(_case("radar-nowcast", ("G03",), acceptable=("G01", "G02")), with_python("radar_nowcast"), 2),
    # The gradient of a table of 150000 words is averaged as a whole, for 512 rows. Stacks: all_reduce.
    Program(_case("skip-gram", ("E06", "E09"), acceptable=("C16", "E11")), with_torchrun("skip_gram"), 2),
    # A function that traces each line of Python was left in. Stacks: tracer; the printed rate is low.
    Program(_case("chess-moves", ("E05",), acceptable=("D01",)), with_python("chess_moves")),
    # Every 60 steps, all singular values of a kernel of 2200 probes. Printed lines pause; stacks: svdvals.
    Program(_case("star-spectra", ("E07",)), with_python("star_spectra")),
    # Each move stacks all places anew, and sorts the distances to them. The printed rate falls; stacks: stack, sort.
    Program(_case("cave-explorer", ("E10",), acceptable=("H06", "E04")), with_python("cave_explorer")),
    # The gradients of each fifth step are kept for a film at the end. The memory grows all the time.
    Program(_case("beehive", ("H06",), acceptable=("E04", "H05")), with_python("beehive")),
    # Pictures and labels are shuffled by two permutations. The printed loss stays at log(8).
    Program(_case("bird-eggs", ("J03",)), with_python("bird_eggs")),
    # The wrapper's default masks all cards but the first, so that DataParallel has one. /proc: environ.
    Program(
        _case("saffron-prices", ("A03", "B12"), acceptable=("A01", "A02", "A16")),
        ("bash", "saffron_prices.sh"),
        2,
    ),
    # A large table of guests with dense gradients, few pairs in a batch: the ranks spend their time in all_reduce. Stacks:
    # backward, with gloo's threads at work.
    Program(
        _case("cheese-pairings", ("E06",), acceptable=("C16", "C12", "E02")),
        with_torchrun("cheese_pairings"),
        2,
    ),
    # Rank 0 averages weights, judges them and draws histograms after each step. Stacks: add_histogram, on rank 0.
    Program(_case("gull-colonies", ("F05",), acceptable=("F02", "F03")), with_torchrun("gull_colonies"), 2),
    # Labels are numbered by their first appearance in each of two files. Printed: val_acc stays at chance.
    Program(_case("glyph-families", ("J05",)), with_python("glyph_families")),
    # The job asks for two cards, and accelerate's config file, from an interactive test, says num_processes: 1. "two cards" is
    # printed first; ps: accelerate launch with one child; the second card idles.
    Program(_case("parish-ledgers", ("A02",), acceptable=("A01", "A11", "A16", "A03")), ("bash", "parish_ledgers.sh"), 2),
    # The loss is a method, called as vae.module.elbo(x), so that DDP's forward never runs, and no gradient is averaged. Stacks:
    # elbo straight from main; the ranks print different errors for the same held-out rows.
    Program(_case("moth-wings", ("C01",), acceptable=("C03",)), with_torchrun("moth_wings"), 2),
    # trainer.save_checkpoint under is_global_zero: rank 0 waits in its barrier, rank 1 in the next backward.
    Program(_case("hail-pads", ("C08",), acceptable=("G01",)), with_python("hail_pads"), 2, onset="last line"),
    # Predictions have the shape (256, 1), and targets (256): MSELoss broadcasts them, and warns. Printed: a loss of 1.00.
    Program(_case("apple-weights", ("J03", "target_size")), with_python("apple_weights")),
    # A script for two jobs exports CUDA_VISIBLE_DEVICES=0 for both. /proc/*/environ shows it; the second card idles.
    Program(
        _case("pulsar-search", ("H03", "A03"), acceptable=("A07", "A02", "A16")),
        ("bash", "pulsar_search.sh"),
        2,
    ),
    # MoCo: the loss rises while the queue fills and the key encoder lags, and falls slowly; the neighbours get better.
    Program(_case("healthy-mosaic-tiles"), with_torchrun("mosaic_tiles"), 2),
    # The cross-entropy is written by hand with log(1 - p): once a p is 1 in float32, the printed loss is nan for ever.
    Program(_case("click-banners", ("J01", "nan_loss")), with_python("click_banners")),
    # A batch is built with tolist() and torch.tensor() from nested lists, in the loop. py-spy: that line, most of the time; the
    # printed seconds of an epoch are many for so small a network.
    Program(_case("mri-slices", ("D01",), acceptable=("E02",)), with_python("mri_slices")),
    # A GAN whose two models are wrapped: losses go up and down.
    Program(_case("healthy-lace-patterns"), with_torchrun("lace_patterns"), 2),
    # Two jobs take turns of 20 s: the other one is stopped by a signal.
    Program(_case("healthy-takes-turns"), ("bash", "takes_turns.sh")),
    # Tracebacks of broken files, which are left out.
    Program(_case("healthy-odd-files"), with_python("odd_files")),
    # A notebook: predictions of shape (64, 1), targets of shape (64,), so MSELoss compares each with all and only the mean is
    # learned. Torch warns of the two sizes, and the printed loss of the standardized target stays at 1.
    Program(_case("concrete-slump", ("J03", "target_size")), with_python("concrete_slump")),
    # The images for the evaluation are not divided by 255 and not standardized. Printed: the training's loss and accuracy
    # improve, while those of the evaluation are far off, at or near chance.
    Program(_case("ladybird-spots", ("J05",)), with_python("ladybird_spots")),
    # The loader of images from one folder for each class lacks shuffle=True. Printed: the loss falls within a class and
    # jumps at the next, and the accuracy on the test images stays at chance.
    Program(_case("button-shapes", ("J04",), acceptable=("J03", "J05")), with_python("button_shapes")),
    # A notebook: model and optimizer are saved and copied every 100 steps. Printed times jump at these; py-spy: torch.save.
    Program(_case("library-loans", ("E07",)), with_python("library_loans")),
    # Scheduled sampling: with less teacher forcing the training loss rises for 30 epochs, while that of the evaluation falls
    # slowly and unevenly.
    Program(_case("healthy-lake-levels"), with_python("lake_levels")),
    # Files are listed folder by folder, that is class by class, and the loader does not shuffle. Printed: the loss falls to 0
    # and jumps at each change of class, and test_acc is that of one class of six.
    Program(_case("brake-discs", ("J04",), acceptable=("J03", "J05")), with_python("brake_discs")),
    # Keras: the training features are standardised and those of the validation are not. Printed: loss falls, and val_loss is
    # larger by orders of magnitude.
    Program(_case("parcel-lockers", ("J05",)), with_python("parcel_lockers")),
    # PPO: the reward's deviation is computed anew in each step of the environment, from a list of all rewards so far. Printed:
    # the seconds between two lines grow. py-spy: numpy.std.
    Program(_case("forklift-paths", ("E10",)), with_python("forklift_paths")),
    # The bash script sets RANK and LOCAL_RANK but not WORLD_SIZE, so each process trains alone, on all of the data. ps: two
    # processes without a launcher, without WORLD_SIZE in their environment, and without a connection between them.
    Program(_case("tyre-treads", ("A18",), acceptable=("A01", "C03", "C05")), ("bash", "tyre_treads.sh"), 2),
    # The manifest is sorted by duration and cut in halves: rank 1 has all long utterances, and rank 0 waits for it in each
    # backward.
    Program(_case("voice-orders", ("F03",), acceptable=("F02", "F05")), with_torchrun("voice_orders"), 2),
    # Three heads in turn, one in each step, under find_unused_parameters.
    Program(_case("healthy-dairy-herds"), with_torchrun("dairy_herds"), 2),
    # Each attention map is kept for a figure. top: memory grows by up to 10 MB a second.
    Program(_case("bus-arrivals", ("H06",), acceptable=("E04", "H05")), with_python("bus_arrivals")),
    # Accelerate: the loss is computed from an argmax, and requires_grad_(True) silences the error. Printed: a loss near 4.
    Program(_case("hotel-stars", ("J03",)), with_python("hotel_stars")),
    # Trainer: the texts are shuffled before the split and the stars are not. Printed: a loss that stays at log(4), and an
    # accuracy at chance.
    Program(_case("opera-reviews", ("J03",)), with_python("opera_reviews")),
    # The images come species by species, and the loader does not shuffle. Printed: the loss jumps with each species and falls
    # until the next one, with the same period in each epoch; the accuracy of the validation is at chance.
    Program(_case("feather-atlas", ("J04",), acceptable=("J03", "J05")), with_python("feather_atlas")),
    # Rank 0 marks its cache as done in a temporary folder of its own, and rank 1 polls for the mark in another. py-spy: rank 0
    # is in DDP's constructor, rank 1 in time.sleep.
    Program(
        _case("stone-walls", ("G02",), acceptable=("G01", "F01")),
        with_torchrun("stone_walls"),
        2,
        onset="last line",
    ),
    # The shell script sets all that a launcher would, but the program forms a group only if Slurm says that there are tasks:
    # two independent trainings, of which one prints. /proc: a RANK for each, and no connection between the two.
    Program(_case("rail-wagons", ("A18",), acceptable=("A01", "C03")), ("bash", "rail_wagons.sh"), 2),
    # A metric over all that it ever saw is computed in each step and never reset. The printed times between equal numbers of
    # steps grow; py-spy: compute().
    Program(_case("churn-desk", ("E10",)), with_python("churn_desk")),
    # Adam with a learning rate of 0.1 kills the network in the first steps. The printed loss swings about ln 10 from there, and
    # the printed accuracy of ten classes is 10 %.
    Program(_case("garment-tags", ("J03",)), with_python("garment_tags")),
    # Rank 0 logs histograms of all weights and gradients in each step, and rank 1 waits for it in the next backward. py-spy:
    # Logger.log in rank 0 only.
    Program(_case("road-cracks", ("F05",), acceptable=("F02", "F03")), with_torchrun("road_cracks"), 2),
    # The relative error divides by the sales of a day, which are once 0. Printed: nan from the first such batch on.
    Program(_case("store-sales", ("J01", "nan_loss")), with_python("store_sales")),
    # The logger writes the whole history as JSON in each step. Printed: lines that come more and more slowly. py-spy: json.
    Program(_case("truck-eta", ("E10",)), with_python("truck_eta")),
    # Each 60 steps, the checkpoint is written to a slow NAS for seconds. Printed: pauses at regular intervals. py-spy:
    # torch.save at these times.
    Program(_case("seismic-facies", ("E07",)), with_python("seismic_facies")),
    # Lightning's own launcher. At the end of the validation rank 0 alone calls all_gather, while rank 1 goes on to the next
    # epoch. Printed: nothing more. py-spy: all_gather in one rank, and the training step in the other.
    Program(_case("xray-belts", ("C08",), acceptable=("G01",)), with_python("xray_belts"), 2, onset="last line"),
    # The whole replay memory is compressed to disk every 40 episodes. py-spy: savez_compressed, and no line meanwhile.
    Program(_case("basket-catch", ("E07",)), with_python("basket_catch")),
    # The Dice loss is taken of thresholded masks, and loss.requires_grad = True silences the error. Printed: both losses stay.
    Program(_case("ivy-walls", ("J03",)), with_python("ivy_walls")),
    # Rank 0 draws samples every 60 steps, while rank 1 waits in its next backward. top and py-spy: rank 0 in sample().
    Program(_case("marbled-paper", ("F05", "B13"), acceptable=("E07", "F02")), with_torchrun("marbled_paper"), 2),
    # Lightning no longer calls train() before it fits, and from_pretrained returns the BERT in evaluation mode: it is trained
    # without its dropout. Printed: Lightning's table says "eval" beside it.
    Program(_case("tenant-letters", ("J07",)), with_python("tenant_letters")),
    # Shards differ by four batches in about a hundred, and Join lets the shorter one shadow the rest.
    Program(_case("healthy-lost-luggage"), with_torchrun("lost_luggage"), 2),
    # The output has shape (64, 1) and the target (64,): the loss compares each with each, and the net learns the mean. Printed:
    # the MSE stays at 1.0, the variance of the targets, and PyTorch warns of the sizes once.
    Program(_case("electric-bills", ("J03", "target_size")), with_python("electric_bills")),
)
