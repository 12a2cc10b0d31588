"""Logs as single machines and notebooks print them, all set aside: students, researchers and hobbyists with one or two GPUs.

Each comment names the cause. The author had not read the doctor, its rules or its tests.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # The masks hold the value 255, beyond the four classes.
    _case("acorns-and-leaves-in-a-unet", (ANY,), "label|target|mask value|255|number of classes|out of range", _UNEXPLAINED),
    # ViT-Large at 384 pixels on a T4: out of GPU memory.
    _case("birch-bark-on-a-free-notebook", ("H02",), acceptable=_UNEXPLAINED),
    # Process 91544 has 21 of the card's 24 GiB.
    _case("afternoon-slot-on-the-shared-desktop", ("H03",), acceptable=("H02", "H04", "exception")),
    # The kernel of WSL killed a script that keeps five gigabytes of text as a list of ids.
    _case("autumn-corpus-in-the-kitchen", ("H05",), acceptable=("signal_killed",)),
    # A container with the usual 64 MB of /dev/shm.
    _case("bees-in-a-container", ("D08",), acceptable=_UNEXPLAINED),
    # Spawned workers cannot import a class that is defined in a notebook's cell.
    _case("dog-breeds-in-jupyter", (ANY,), r"notebook|num_workers|own (file|module)|\.py\b|import|spawn", _UNEXPLAINED),
    # Driver 470 under a torch for CUDA 12.
    _case(
        "flat-share-server-with-debian", (ANY,), r"driver[^.]*old|(update|upgrade|newer)[^.]*driver|11\.4|11040", _UNEXPLAINED
    ),
    # pip gave Windows the build without CUDA.
    _case("first-steps-with-the-new-laptop", (ANY,), r"CPU|without CUDA|cu1\d\d|CUDA build", _UNEXPLAINED),
    # A card of architecture sm_120 under a torch that ends at sm_90.
    _case(
        "card-under-the-desk", (ANY,), "sm_120|capabilit|architecture|cu128|built for|newer (build|torch|pytorch)", _UNEXPLAINED
    ),
    # The container was not given the GPU.
    _case("compose-up-for-the-thesis", (ANY,), "driver|--gpus|container|toolkit", _UNEXPLAINED),
    # A head of nine classes is loaded into one of fourteen.
    _case("coins-of-fourteen-countries", (ANY,), "size mismatch|shape|number of classes|num_classes|head", _UNEXPLAINED),
    # The weights were saved from a wrapped model.
    _case("hedgehog-camera-continued", ("C13",), acceptable=_UNEXPLAINED),
    # torch 2.6 loads only weights; the file holds a pickled model.
    _case("drone-footage-after-pip-upgrade", (ANY,), r"weights_only|2\.6", _UNEXPLAINED),
    # Weights from a GPU are loaded on a machine without CUDA.
    _case("leaving-the-lab-with-a-model", (ANY,), "map_location", _UNEXPLAINED),
    # The last checkpoint is shorter than the others: it was not written to its end.
    _case("guitar-tabs-since-tuesday", (ANY,), "corrupt|damaged|truncat|incomplete|not (whole|complete)|cut off", _UNEXPLAINED),
    # 12 times 128 features instead of 1024.
    _case("handwriting-for-the-seminar", (ANY,), "1536|shape|in_features", _UNEXPLAINED),
    # The hidden state is not detached between the batches.
    _case("jazz-solos-with-an-lstm", (ANY,), "detach|retain_graph|second time|same graph", _UNEXPLAINED),
    # The critic is updated between the generator's forward and backward pass.
    _case("kite-photos-and-a-critic", (ANY,), "in-?place", _UNEXPLAINED),
    # The targets come from a data frame and are float64.
    _case("lichen-regression", (ANY,), r"double|float64|float32|dtype|\.float\(\)", _UNEXPLAINED),
    # The loss has parameters, which were left on the CPU.
    _case("faces-with-center-loss", (ANY,), r"same device|cuda:0 and cpu|not moved|on the CPU|\.to\(|\.cuda\(", _UNEXPLAINED),
    # Pictures of two sizes in one batch.
    _case("mosses-under-the-microscope", (ANY,), "equal size|same size|resize|crop|collate|299", _UNEXPLAINED),
    # The last batch has one sample: 2305 = 288 * 8 + 1.
    _case(
        "driver-drowsiness-at-two-in-the-morning",
        (ANY,),
        "drop_last|batch of (1|one)|(one|single) sample|more than (1|one) value|batch ?norm",
        ("C10", "exception"),
    ),
    # The gradients are NaN, and the trainer prints a loss of 0 for a loss that is NaN.
    _case("ingredients-into-recipes", ("J01", "nan_loss")),
    # The loss stays at the logarithm of ten.
    _case("first-own-loop", ("J03",)),
    # The evaluation on rank 0 does not fit.
    _case("both-cards-and-a-longer-context", ("H02",), acceptable=_UNEXPLAINED),
    # Rank 1 misses a file. That the rest is "Killed" is Lightning's doing.
    _case("knee-slices-with-two-a6000", (ANY,), "case_0917|no such file|not exist|missing", ("G04", "exception")),
    # Rank 1's batch had no sample for the second head.
    _case("animals-with-two-heads", ("C09",), acceptable=_UNEXPLAINED),
    # Three processes on a machine with two GPUs.
    _case(
        "command-from-the-paper",
        (ANY,),
        "nproc|fewer GPUs|more (ranks|processes)|(2|two) GPUs|number of GPUs|no such (GPU|device)|not exist",
        _UNEXPLAINED,
    ),
    # Rank 0 has one batch more than rank 1.
    _case("graph-batches-on-a-pair-of-titans", ("C07",), acceptable=("G01", "G03", "G04")),
    # A worker of rank 1 got SIGKILL.
    _case("fruit-detector-on-the-tower", ("H05",), acceptable=("G04", "exception")),
    # Both ranks train on one GPU.
    _case("clone-of-a-detection-repo", ("A07",), acceptable=_UNEXPLAINED),
    # NCCL finds no room in a container's /dev/shm.
    _case("image-of-the-study-group", ("G05",), acceptable=("D08", "nccl_system", "exception")),
    # Nine tenths of a step are its data.
    _case("landmarks-at-half-price", ("D01",), acceptable=("D07",)),
    # GPT-2 has no padding token.
    _case("legal-clauses-with-gpt2", (ANY,), "pad_token|padding token|eos", _UNEXPLAINED),
    # The third checkpoint does not fit on the disk.
    _case("diffusion-of-vases-overnight", (ANY,), "space|disk|full", _UNEXPLAINED),
    # A torchvision for torch 2.5 under torch 2.9.
    _case("harbour-cameras-in-a-fresh-venv", (ANY,), "torchvision", _UNEXPLAINED),
    # fastai's column error_rate falls.
    _case("healthy-apples-by-the-fast-lane"),
    # The keys are missing because the head is new.
    _case("healthy-bears-and-an-old-backbone"),
    # Returns that go up and down on their way up.
    _case("healthy-cart-and-pole-in-an-evening"),
    # TensorFlow's complaints at the import, and warnings of deprecations.
    _case("healthy-doodles-described-in-words"),
    # Ultralytics leaves out three broken pictures.
    _case("healthy-elephants-from-the-air"),
    # The NaN in the table are replaced before the training.
    _case("healthy-finance-tables-with-holes"),
    # The download succeeds at the third attempt.
    _case("healthy-hub-is-slow-tonight"),
    # Stopped by hand, with a checkpoint.
    _case("healthy-ink-strokes-before-lunch"),
    # DDP looks for unused parameters and finds none.
    _case("healthy-jury-of-two-cards"),
    # Only the search for a learning rate diverges.
    _case("healthy-lungs-and-a-range-test"),
)
