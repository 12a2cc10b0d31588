"""Logs as people paste them, set aside until the doctor misjudged them or could say more, and they were looked into."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="open")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # torch.cuda.set_device(rank) with the global rank: 4 to 7 on a node of four GPUs.
    _case("pretraining-for-satellites", ("A08", "invalid_ordinal"), acceptable=_UNEXPLAINED),
    # The very first collective of all four ranks times out: peer-to-peer copies do not work on this machine.
    _case("voices-on-a-new-workstation", ("G02",), acceptable=("G01",)),
    # Xid 79: the GPU of rank 1 has fallen off the bus.
    _case("diffusion-as-a-service-unit", ("I05",), acceptable=("I04", "exception")),
    # The loss falls for a hundred steps and then grows a hundredfold.
    _case("little-gpt-on-recipes", ("J02",), acceptable=("J01",)),
    # 20 of the GPU's 24 GiB belong to another process.
    _case("depth-maps-on-a-3090", ("H03",), acceptable=("H02", "exception")),
    # Three utterances with an infinite CTC loss are left out; losses start at 600.
    _case("healthy-letters-from-audio"),
    # NCCL is ready, but the first all_reduce between two cards never ends.
    _case("two-a6000-and-a-fresh-install", ("G02", "G01")),
    # A traceback about a package that is only an option.
    _case("healthy-on-windows-without-triton"),
    # The validation loss rises from epoch 11 on.
    _case("nuclei-of-one-hospital", ("J05",)),
    # Rank 3 has five batches fewer and is at the evaluation when the others wait for gradients.
    _case("four-ranks-and-a-sharded-list-of-files", ("C07", "C08"), acceptable=("G01", "cpp_terminate")),
    # BCELoss gets a value outside of [0, 1].
    _case(
        "mask-decoder-on-the-third-batch",
        (ANY,),
        r"sigmoid|logits|0 and 1|\[0, ?1\]|between 0|0 to 1|0\.\.1|binary.cross",
        ("illegal", "exception"),
    ),
    # Kaggle restarted the notebook: its memory is full of cached images.
    _case("competition-notebook-version-12", ("H05",)),
    # The loss falls for 600 iterations, then grows without end.
    _case("elevation-from-stereo", ("J02",)),
    # Ultralytics with the CPU's build of torch.
    _case("ants-on-video", ("A12",)),
    # DETR's loop leaves when its loss is NaN, here on rank 1.
    _case("detr-on-insects", ("J01", "nan_loss")),
    # set_device(rank) on the second server.
    _case("pose-estimation-and-the-second-server", ("A08", "invalid_ordinal"), acceptable=_UNEXPLAINED),
    # Megatron finds a NaN on rank 13.
    _case("pretraining-with-two-stages-and-a-warm-up", ("J01", "nan_loss"), acceptable=("exception", "G04")),
    # NCCL talks through docker0, and the first broadcast never ends.
    _case("two-workstations-on-the-lab-switch", (ANY,), "docker0|NCCL_SOCKET_IFNAME|interface", ("G02", "G01", "G03")),
    # 13 s of waiting for 1.3 s of work.
    _case("vision-model-at-batch-120", ("D01",), acceptable=("D07",)),
    # Node 0 rebooted; node 1 only loses its peer.
    _case("what-is-left-of-node-one", ("G04",), acceptable=_UNEXPLAINED),
    # The loss of a segmentation rises from 1.6 to 69.
    _case("brain-scans-on-colab", ("J02",), acceptable=("J03",)),
    # All letters of the training captchas are read, those of the validation by chance.
    _case("captcha-letters-third-try", ("J05",)),
    # The evaluation's loss rises from the third epoch on, the training's falls.
    _case("essays-scored-by-deberta", ("J05",)),
    # No label files were found: all pictures count as background.
    _case("items-on-a-supermarket-shelf", (ANY,), "label", ("J03",)),
    # The mean return rises to 214 and then falls to -320.
    _case("lunar-lander-after-lunch", ("J06",)),
    # The second machine cannot reach port 29400 of the first.
    _case("launched-on-two-desktops", (ANY,), r"192\.168\.178\.41|29400|firewall|reach|connect", ("G01", "G03", "G06")),
    # Each rank goes through all 1563 batches.
    _case("first-ddp-after-the-tutorial", ("C05",)),
    # Rank 3 reads from a USB disk; the others wait for it in the all-reduce.
    _case("cows-in-four-barns", ("F01",), acceptable=("D01", "D07", "F05")),
    # Both ranks stay in the first barrier.
    _case("bench-of-two-4090", ("G02",), acceptable=("G01",)),
    # 88 degrees, slowdowns active, half of the clock.
    _case("gaming-laptop-and-a-small-gpt", ("I01",), acceptable=("E10", "I07")),
    # 38 s for sixteen new workers in each epoch of 44 s.
    _case("faces-in-family-albums", ("D06",), acceptable=("D01", "E07")),
    # Each eighth batch comes late: all eight workers are too slow.
    _case("flowers-with-eight-helpers", ("D01",), acceptable=("D07", "E07")),
    # One label after the other, for shuffle=False.
    _case("emotions-from-my-csv", ("J04",), acceptable=("J05",)),
    # An epoch takes 41 s at first and 172 s at the end, at the same use of memory.
    _case("graph-net-for-traffic", ("E10",)),
    # ultralytics: no labels beside the images, so there is nothing to learn.
    _case("potholes-with-yolov8", (ANY,), r"\blabels?\b", ("J03", "J05")),
    # Stable-Baselines3: the return rises, then falls to nothing.
    _case("walker-with-ppo", ("J06",)),
    # kohya: the images' own folder instead of its parent. No traceback.
    _case("watercolors-with-kohya", (ANY,), "train_data_dir|no data|parent"),
    # Two ranks of four are there; the others never join.
    _case("brain-atlas-with-hydra-and-two-boxes", ("G03",), acceptable=("G06", "G02", "G01")),
    # The samples come class by class.
    _case("cats-and-dogs-of-a-challenge", ("J04",), acceptable=("J05",)),
    # Accelerate warns of a kernel that is too old, and the first step never ends.
    _case(
        "chat-model-that-does-not-begin",
        (ANY,),
        r"kernel.{0,40}(version|old|below|upgrade|4\.18)|(old|outdated|linux) kernel|5\.5|NCCL_P2P",
        ("G01", "G02"),
    ),
    # Both ranks are stuck in the first all_reduce.
    _case("desk-with-a-pair-of-4090", ("G02",), acceptable=("G01",)),
    # Two OpenMP runtimes.
    _case("diseased-leaves-with-anaconda", (ANY,), "openmp|libiomp|KMP_DUPLICATE", _UNEXPLAINED),
    # Eight cards and one process.
    _case("fine-tuning-an-autoencoder-by-the-readme", ("A01",), acceptable=("A02",)),
    # Rank 2 reads from a slow disk.
    _case("four-cards-and-their-timings", ("F01",), acceptable=("D01", "D07")),
    # PPO forgets what it knew.
    _case("lander-of-a-reading-group", ("J06",)),
    # Rank 1 has five batches fewer.
    _case("last-line-at-two-in-the-morning", ("C07",), acceptable=("G01", "C08")),
    # Samples of Shakespeare with hard words in them.
    _case("healthy-bard-between-the-steps"),
    # No DistributedSampler.
    _case("four-cards-no-faster-than-one", ("C05",)),
    # Megatron: the loss grows from 3 to 7.
    _case("twelve-billion-parameters-on-a-monday", ("J02",)),
    # The mean return falls after episode 1500 and stays low.
    _case("dqn-plays-snake-since-breakfast", ("J06",)),
    # One of two members has joined, the other never does.
    _case("last-words-are-member-one-of-two", ("G03",), acceptable=("G01", "G02", "G06", "A18")),
    # All 340 modules are in evaluation mode.
    _case("moles-on-skin-as-in-the-course", ("J07",)),
    # Folder after folder: each batch holds one class.
    _case("dogs-one-folder-per-breed", ("J04",), acceptable=("J05",)),
    # The workers start anew in every epoch, and read their index first.
    _case("five-quiet-quarters-of-an-hour", ("D06",), acceptable=("D01", "E07")),
    # Every hundredth step takes 11 seconds.
    _case("denoiser-with-a-hiccup", ("E07",)),
    # Plain python on a machine with four GPUs.
    _case("detr-in-the-reading-group", ("A01", "A02")),
    # The learning rate is 0 in every step.
    _case("chat-of-week-nine-natural-inference", ("J03",)),
    # The loss of rank 2 grows while that of rank 0 falls.
    _case("four-terminals-in-one-window", ("C11",), acceptable=("J02",)),
    # Rank 2 loads for two seconds, the others wait for it in backward().
    _case("clips-of-hands-with-four-processes", ("F01",), acceptable=("D01",)),
    # After 300 steps at a high learning rate the loss only grows.
    _case("old-norse-voices-at-the-institute", ("J02",), acceptable=("J01",)),
    # 212 ms an iteration at first, 2 s after some hours.
    _case("products-graph-after-hours", ("E10",), acceptable=("E04",)),
    # Each twentieth step takes 12 s instead of 0.36 s.
    _case("reanalysis-fields-on-gn-14", ("E07",), acceptable=("D01",)),
    # No GPU is available, and a step takes 20 s.
    _case("tiles-of-the-alpine-foreland", ("A12",)),
    # Nine tenths of a step are the gradients' all-reduce, over sockets.
    _case("sixteen-cards-of-two-institutes", ("E06",), acceptable=("K05", "K08")),
    # Rank 2 waits for each batch, and the others wait for rank 2.
    _case("satellite-patches-on-four-shards", ("F01",), "rank 2", ("D01", "F03", "F05")),
    # Each of four ranks sees all the images in each epoch.
    _case("two-hundred-birds-on-four-cards", ("C05",)),
    # The loss of rank 3 rises while those of the others fall.
    _case("umbrella-species-with-four-tasks", ("C11",), "rank 3", ("C01", "J02", "J03")),
    # Host lc-203 computes almost three times as long as the others, which wait for it.
    _case("pretraining-on-lc-201-to-204", ("K01", "K02"), "lc-203", ("F02", "K04")),
    # The second GPU is at 93 degrees, and its clock at a third.
    _case("weed-detector-on-two-3090", ("I01",), acceptable=("E10", "I07")),
    # Rank 2 has a batch fewer than the others, which wait for it.
    _case("speaker-embeddings-in-a-pod", ("C07",), acceptable=("G01", "C08")),
)
