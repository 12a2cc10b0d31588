"""Logs as people paste them into forums and course chats, all set aside: "it does not learn", "it is slow", "it just stops".

Each comment names the cause.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # The loss is ln(10) for 25 epochs, the accuracy that of guessing.
    _case("azaleas-with-my-own-resnet", ("J03",)),
    # A learning rate of 0.03: the loss falls and then grows without end.
    _case("bach-chorales-and-a-transformer", ("J02",), acceptable=("J01",)),
    # Half precision on a GTX 1660: NaN from the first epoch on.
    _case("bicycles-on-a-gtx-1660", ("J01", "nan_loss")),
    # Overfitting: the loss of the test set rises while that of training vanishes.
    _case("course-project-with-a-cnn", ("J05",)),
    # 16 workers on two cores, and a loop that waits for them.
    _case("food-homework-wants-sixteen-helpers", ("D02",), acceptable=("D01",)),
    # No workers: 95 % of each step is data time.
    _case("ferns-at-home-on-a-3060", ("D01",)),
    # Lightning says that the GPU is there but not used.
    _case("hours-per-epoch-on-a-new-desktop", ("A12",)),
    # "Killed", exit status 137, 15 of 15 GB in use.
    _case("it-only-prints-one-word", ("H05",)),
    # Colab's session used all RAM; the newest line comes first.
    _case("house-numbers-and-a-session-log", ("H05",)),
    # Each epoch takes five seconds more than the one before.
    _case("graph-snapshots-and-a-stopwatch", ("E10",)),
    # 94 degrees, thermal slowdown, 615 MHz.
    _case("laptop-on-a-blanket", ("I01",), acceptable=("E10",)),
    # A target of shape (64,) against outputs of shape (64, 1).
    _case("flats-in-lisbon-by-price", (ANY,), "broadcast|target size|target.{0,30}shape|shape.{0,30}target|squeeze", ("J03",)),
    # DataParallel over a 3090 and a 1080 Ti is slower than the 3090.
    _case("gamer-box-with-an-old-and-a-new-card", ("B11",), acceptable=("B08", "I06")),
    # Slurm's time limit.
    _case("it-stops-every-night-in-the-same-hour", (ANY,), "time.?limit", ("slurm_cancelled",)),
    # The memory of the job, 32 GB, is used up.
    _case("lidar-tiles-in-a-course-account", ("H05",)),
    # Xid 79: the GPU has fallen off the bus.
    _case("games-run-but-training-freezes", ("I05", "I04")),
    # The loss jumps, then the gradient norm is NaN.
    _case("llama-two-with-a-lora-on-a-t4", ("J01", "nan_loss")),
    # Rank 3 has one batch less than the others.
    _case("almost-at-the-end-of-epoch-zero", ("C07",), acceptable=("C08", "G01")),
    # Losses are kept with their graphs: memory grows until it is full.
    _case("generator-that-dies-after-lunch", ("H06",), acceptable=("H02", "exception")),
    # 64 MB of /dev/shm for eight workers.
    _case("kittens-in-a-rented-pod", ("D08",), acceptable=_UNEXPLAINED),
    # A checkpoint of DataParallel or DDP, loaded without it.
    _case("evaluation-cell-on-my-own-pc", ("C13",), acceptable=_UNEXPLAINED),
    # The discriminator stepped between the forward and the backward pass of the generator.
    _case("gan-from-a-video-course", (ANY,), "in-?place|modified|detach", _UNEXPLAINED),
    # pip on Windows installs a wheel without CUDA.
    _case(
        "first-try-with-a-new-gaming-pc",
        (ANY,),
        "cpu.?only|not compiled with CUDA|(without|no) CUDA|CUDA.{0,30}(build|wheel)|(built|build|wheel).{0,30}(CUDA|CPU)",
        ("A12", "exception"),
    ),
    # The hidden state stays on the CPU.
    _case("lyrics-with-two-layers", ("A13",), acceptable=_UNEXPLAINED),
    # Only rank 2 runs out of memory.
    _case("image-captions-on-four-2080", ("H02",), "GPU 2|rank 2", _UNEXPLAINED),
    # Rank 1 meets a species that the table lacks.
    _case("birdcalls-with-the-launcher", (ANY,), "KeyError|gryjay1"),
    # The kernel killed rank 3 for its memory; the others lost their connection.
    _case("graph-of-papers-in-the-seminar-room", ("H05",), acceptable=("G04",)),
    # Two ranks create the same folder; rank 2 only lost its peer.
    _case(
        "experiments-in-dated-folders", ("C14", ANY), "File ?Exists|exist_ok|same (file|folder|director)", ("exception", "G04")
    ),
    # A label of rank 1 is out of range.
    _case("cell-types-on-a-pair-of-cards", (ANY,), "n_classes|label|target|index|out of (range|bounds)", _UNEXPLAINED),
    # The second node has another Python, without timm.
    _case("borrowed-nodes-for-a-weekend", (ANY,), "timm", ("exception", "G04")),
    # The scaler skipped the first step, hence the warning about the order; accuracy rises.
    _case("healthy-asks-about-the-first-warning"),
    # Dropout and mixup: validation is better than training.
    _case("healthy-better-on-what-it-never-saw"),
    # The first mirror answers 403, the second gives the file.
    _case("healthy-digits-from-the-second-mirror"),
    # Batches of four: the loss jumps, its mean falls.
    _case("healthy-jumps-with-four-pictures"),
    # Warm restarts: the loss rises with the learning rate.
    _case("healthy-every-tenth-epoch-starts-anew"),
    # Validation only in every fifth epoch; the other cells are nan.
    _case("healthy-holes-in-the-right-columns"),
    # What torch says at the start and the end of most DDP runs.
    _case("healthy-hears-warnings-from-both-cards"),
    # The first epoch includes the compilation.
    _case("healthy-clock-of-the-first-epoch"),
    # Classes with names like error_page; an error rate that falls.
    _case("healthy-classes-called-error-and-blank"),
    # Two retries at the hub and the usual warnings.
    _case("healthy-german-entities-after-two-retries"),
)
