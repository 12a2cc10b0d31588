"""What people ask in forums, with the output: it does not learn, it is slow, it just stops, what does this warning mean.

Each comment names the cause.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Overfitting: the training loss goes to nothing, that of validation triples.
    _case("allergy-skin-test-photos", ("J05",)),
    # The Trainer was started with plain python and splits its batches over four cards; one alone is as fast.
    _case("answers-from-squad-on-four-titans", ("A09", "B08"), acceptable=("A02",)),
    # Anomaly detection is on.
    _case("bedtime-stories-this-week", ("E05",)),
    # A file that is no image, under one rank of three.
    _case(
        "blackbirds-and-grackles",
        (ANY,),
        r"identif|corrupt|damaged|broken|not an? (valid )?image|image file|\._0074",
        ("exception", "G04"),
    ),
    # cuDNN cannot load libnvrtc, and aborts.
    _case("bolts-in-a-fresh-container", (ANY,), "nvrtc|cudnn", ("exception", "library_missing")),
    # GPU 3 of four is full; the other ranks are stopped.
    _case("boxes-on-the-institutes-titans", ("H02",), "GPU 3|rank 3", _UNEXPLAINED),
    # A target without the last dimension is broadcast against the predictions.
    _case(
        "bungalows-in-california",
        (ANY,),
        r"broadcast|target.{0,40}(size|shape)|(size|shape).{0,40}target|squeeze",
        ("J03",),
    ),
    # torch.load of 2.6 takes weights only.
    _case("cars-continued-in-february", ("weights_only",), acceptable=_UNEXPLAINED),
    # Fewer and fewer iterations per second.
    _case("cello-notes-per-second", ("E10",)),
    # Softmax before the loss, a high rate: ln 10 for ever.
    _case("cifar-in-week-four", ("J03",)),
    # Sixteen workers on two cores.
    _case("colab-food-homework", ("D02",), acceptable=("D01", "D03")),
    # /dev/shm is full in the pod; one rank of four says so.
    _case("crops-of-city-streets-in-a-pod", ("D08",), acceptable=_UNEXPLAINED),
    # Port 29500 belongs to another process.
    _case("dist-train-script-of-a-toolbox", ("G03",), "29500|taken|in use", _UNEXPLAINED),
    # 92 % of the time goes into the next batch.
    _case("drums-and-a-profiler-table", ("D01",)),
    # The loss grows in every epoch: a learning rate of 0.8.
    _case("electric-load-of-a-town", ("J02",)),
    # Every worker of eight takes twelve seconds for a batch.
    _case("every-eighth-line-takes-longer", ("D01",), acceptable=("E07", "D07")),
    # NaN from the fourth epoch on.
    _case("feathers-in-lesson-two", ("J01", "nan_loss")),
    # 0.693 for three epochs.
    _case("film-critics-with-distilbert", ("J03",)),
    # DataParallel waits for a card of 2016.
    _case("first-and-second-hand-cards", ("B11",), acceptable=("I06", "B08")),
    # All ranks make the same folder; one of them comes too late.
    _case("first-try-of-a-detector-on-four", ("C14",), acceptable=_UNEXPLAINED),
    # A label beyond the classes, on rank 1.
    _case("garbage-in-twenty-one-classes", ("illegal",), "label|class|target|index|range", _UNEXPLAINED),
    # Rank 0 cannot write its checkpoint: the project's disk is full.
    _case(
        "german-into-czech-on-the-project-share",
        (ANY,),
        r"space|(disk|file ?system).{0,20}full|full disk|quota",
        ("exception", "G04", "G01"),
    ),
    # parse_args meets the options of the notebook's kernel.
    _case("github-script-in-a-cell", (ANY,), "argparse|parse_args|parse_known|unrecognized|notebook|jupyter", _UNEXPLAINED),
    # The validation's tokens stay on the CPU.
    _case("imdb-in-thonny", ("A13",), acceptable=_UNEXPLAINED),
    # Nine tenths of each step go into the data.
    _case("imagenet-on-a-second-hand-server", ("D01",), acceptable=("D07",)),
    # The driver is too old for this torch, which goes on without a GPU.
    _case("ivy-leaves-on-a-tower-pc", (ANY,), "driver", ("A12",)),
    # Lightning was not asked to use the GPU.
    _case("kidney-stones-with-a-unet", ("A12",)),
    # The card slows down at 91 degrees.
    _case("language-model-in-july", ("I01",), acceptable=("E10",)),
    # The driver's libraries were upgraded under a loaded kernel module.
    _case(
        "letters-on-receipts-since-wednesday",
        (ANY,),
        r"reboot|restart the (machine|host|computer)|reload|kernel module|driver.{0,60}(mismatch|differ|version|librar)",
        ("A12", "I10"),
    ),
    # Four copies of 118 GB on a host with 251: the kernel kills rank 2.
    _case("linear-probe-on-a-rented-instance", ("H05",), acceptable=("G04", "signal_killed")),
    # The scaler skips the first step, so the schedule seems to be first; the loss falls.
    _case("healthy-autocast-and-a-schedule"),
    # Mixup and dropout make the training look worse than the validation.
    _case("healthy-better-on-validation"),
    # Batches of one: single losses jump, their mean falls.
    _case("healthy-boxes-one-image-at-a-time"),
    # The first epoch fills the cache.
    _case("healthy-cached-after-the-first-epoch"),
    # No IPv6 on the first node; IPv4 does it.
    _case("healthy-cluster-tutorial-and-a-socket"),
    # No small objects in the data, so no figure for them.
    _case("healthy-coco-table-with-minus-ones"),
    # The score of a mountain car is -200 until it first arrives.
    _case("healthy-hill-and-a-little-car"),
    # Other services fail in the same journal.
    _case("healthy-journal-of-a-home-server"),
    # ln 50257 at first, and slowly down.
    _case("healthy-large-vocabulary-from-scratch"),
)
