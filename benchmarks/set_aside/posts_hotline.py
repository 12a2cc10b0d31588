"""Logs as people paste them when they ask in a forum or a course's chat, all set aside.

Each comment names the cause and where the log shows it.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)
_ONE_RANK = ("exception", "G04")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # The loss stays at the logarithm of ten classes, the accuracy at a tenth.
    _case("animals-ten-from-scratch", ("J03",)),
    # The driver is older than the wheel's CUDA, so that training runs on the CPU.
    _case("digits-on-the-old-desktop", (ANY,), "driver", ("A12",)),
    # Nine tenths of each step are the time for data.
    _case("food-pictures-on-four-a6000", ("D01",), acceptable=("D07",)),
    # nan from step 220 on.
    _case("gpt-from-the-video", ("J01", "nan_loss")),
    # All three losses are nan from the first batch on.
    _case("helmets-on-the-building-site", ("J01", "nan_loss")),
    # Targets of shape [64] against outputs of shape [64, 1] are broadcast.
    _case("house-prices-again", (ANY,), "broadcast|target size|shape|same size|squeeze", ("J03",)),
    # Kaggle restarts the notebook, which had used up the host's memory.
    _case("jigsaw-comments-in-a-notebook", ("H05",), acceptable=("H06",)),
    # Slurm's cgroup killed task 3, as four ranks each read a large table.
    _case("clicks-of-2023", ("H05",), acceptable=("G04",)),
    # Slurm's time limit.
    _case("metro-flow-on-the-student-queue", (ANY,), "time limit|time.?out|--time|wall.?time"),
    # DataParallel over an RTX 3090 and a GTX 1070.
    _case("bigger-tower-since-friday", ("B11",), acceptable=("I06", "B08")),
    # Lightning's profiler: 90 % of the time is train_dataloader_next.
    _case("audio-tags-on-a-fat-server", ("D01",)),
    # Sixteen workers on two cores.
    _case("dogs-on-free-colab", ("D02",), acceptable=("D01", "D03")),
    # A byte in rank 5's shard is not UTF-8; the others time out.
    _case("korean-news-on-eight-ranks", (ANY,), "UnicodeDecodeError|utf-?8|decode|encoding", _ONE_RANK),
    # A picture is missing on the second node's own disk: rank 3.
    _case("imagenet-on-two-nodes", (ANY,), "No such file|FileNotFound|missing|does not exist", _ONE_RANK),
    # The cache volume of worker 2 is full.
    _case("medical-volumes-on-four-pods", (ANY,), r"no space|disk|volume|\bfull\b|free space", _ONE_RANK),
    # An uncorrectable memory error of rank 6's GPU, which the kernel reports as Xid 48.
    _case("clip-on-a-rented-box", ("I04",), acceptable=("I05", "exception")),
    # Rank 2 has 43 batches and the others have 44.
    _case("abalone-shells-on-three-cards", ("C07",), acceptable=("C08", "G01", "G04")),
    # Rank 1 runs out of memory in its backward pass.
    _case("llama-on-a-pair-of-a100", ("H02",), acceptable=_UNEXPLAINED),
    # Four ranks on three GPUs.
    _case(
        "maize-leaves-at-the-institute",
        (ANY,),
        r"more (ranks|processes)|(ranks|processes).{0,40}than|nproc|number of GPUs|only (3|three)|no such (GPU|device)|ordinal",
        ("exception", "A02", "A08"),
    ),
    # 101 labels, but num_classes is 100.
    _case("funghi-of-the-alps", (ANY,), "index|classes|label|target", ("exception", "illegal")),
    # Sixteen workers load torch, and Windows has no more virtual memory.
    _case("anime-upscaler-on-windows", (ANY,), "paging|page file|virtual memory|swap|workers", ("exception", "H05")),
    # Pictures of two sizes in one batch.
    _case("detector-for-returned-bottles", (ANY,), r"\bsizes?\b|shape|resize|\bpad|collate", _UNEXPLAINED),
    # Pictures with one channel for a network that expects three.
    _case("mri-slices-with-a-resnet", (ANY,), "channel|gr[ae]y|RGB", _UNEXPLAINED),
    # The last batch has one row, too few for batch normalization.
    _case(
        "finches-and-sparrows",
        (ANY,),
        r"drop_last|last batch|batch ?norm|batch.{0,25}\b(1|one|single)\b|(one|single) (sample|row)",
        ("exception", "C10"),
    ),
    # The sum of the losses keeps the graphs: memory grows by 7 MiB in each batch.
    _case("captions-with-attention", ("H06",), acceptable=("H02", "exception")),
    # The hidden state of the LSTM is not detached.
    _case("char-rnn-homework", (ANY,), "retain_graph|detach|second time|twice", _UNEXPLAINED),
    # cuDNN tries a plan that does not exist for this convolution, and takes another.
    _case("healthy-asks-about-a-cudnn-plan"),
    # Warnings about a new head, a long sequence and the scheduler; the loss falls.
    _case("healthy-bert-and-its-opening-warnings"),
    # The losses of a Wasserstein GAN; the FID falls.
    _case("healthy-critic-loss-is-negative"),
    # Two ranks with the usual warnings, one of which speaks of a hang.
    _case("healthy-ddp-says-it-could-hang"),
    # The loss of a DQN grows with the returns.
    _case("healthy-dqn-loss-climbs-with-the-score"),
    # NaN marks the epochs without a validation.
    _case("healthy-f1-table-with-holes"),
    # Grokking: the test accuracy rises long after that of the training.
    _case("healthy-grows-wise-very-late"),
    # PyTorch's cache fills the card; what is allocated stays the same.
    _case("healthy-holds-almost-all-memory"),
    # A new head on weights of MoCo.
    _case("healthy-keys-missing-and-unexpected"),
    # Label smoothing and mixup keep the loss above a floor; the accuracy rises.
    _case("healthy-label-smoothing-has-a-floor"),
)
