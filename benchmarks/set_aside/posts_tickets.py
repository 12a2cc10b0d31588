"""Logs as they are pasted into forums, issues and support tickets: frequent problems, and healthy runs that look odd.

Each comment names the cause. The author knew the doctor's ids and titles, and no more.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Rank 3 has a longer batch than the others, and its GPU is full in the backward pass.
    _case("chat-finetune-from-the-group-template", ("H02",), r"GPU 3|rank 3|cuda:3", _UNEXPLAINED),
    # A label that is not one of the 24 classes, on rank 1.
    _case("documents-into-folders-second-try", (ANY,), "label|class|target|index", _UNEXPLAINED),
    # The pod's /dev/shm is too small for the loader of rank 2.
    _case("field-parcels-in-the-cloud", ("D08",), acceptable=_UNEXPLAINED),
    # Another launcher on this machine holds port 29500.
    _case("whisper-for-galician", (ANY,), r"29500|\bport\b|address.{0,20}in use", ("G03", "exception")),
    # Rank 1 skips a branch of the model, whose parameters get no gradient.
    _case("navigation-agent-in-apartments", ("C09",), acceptable=("C08", "exception")),
    # Rank 0 keeps its best weights and broadcasts, while the others are in the gradients' all-reduce.
    _case("small-language-model-third-epoch", ("C08",), acceptable=("G01",)),
    # A file that is no image, on rank 5; the others lose their peer.
    _case(
        "mushrooms-from-field-notebooks",
        (ANY,),
        "IMG_2231|identify image|image file|not an image|corrupt|damaged|unreadable",
        ("exception", "G04"),
    ),
    # Eight processes load 70 billion parameters each into the host's memory, and the kernel kills one.
    _case("seventy-billion-on-eight-cards", ("H05",), acceptable=("G04", "signal_killed")),
    # All three ranks use cuda:0.
    _case("optical-flow-after-the-refactoring", ("A07",), acceptable=_UNEXPLAINED),
    # The last batch of rank 1 has one sample, of which BatchNorm cannot take statistics.
    _case(
        "indoor-scans-overnight",
        (ANY,),
        r"drop_last|more than (1|one)|(one|single|1) (row|sample|value|example|element|item)|"
        r"batch.{0,15}(of|is|=|size) ?(1|one)\b|batch ?norm",
        _UNEXPLAINED,
    ),
    # The script knows --sched, not --lr_scheduler.
    _case("small-vit-from-the-readme", (ANY,), "lr_scheduler", _UNEXPLAINED),
    # The batch script does not export MASTER_ADDR.
    _case("weather-downscaling-on-the-cray", (ANY,), "MASTER_ADDR", ("A01", "A18", "exception")),
    # The container runs as a user who may not write /root/.cache: rank 0.
    _case(
        "entities-with-the-it-departments-image",
        (ANY,),
        r"permission|not (allowed|permitted)|writ(e|able)|HF_HOME|HF_DATASETS_CACHE",
        ("exception", "G04"),
    ),
    # DeepSpeed compiles its CPU Adam, and finds no CUDA toolkit.
    _case("alignment-stage-two", (ANY,), "CUDA_HOME|toolkit|nvcc", _UNEXPLAINED),
    # Four devices in Lightning, one task per node in Slurm.
    _case("segmentation-in-the-gpu-queue", (ANY,), "ntasks|tasks per node|(one|1) task", _UNEXPLAINED),
    # The pod reaches its limit of 48 GiB.
    _case(
        "graph-embeddings-restart-again",
        (ANY,),
        r"OOMKilled|48 ?Gi|(host|main|system|container|pod)('s)? memory|\bRAM\b|runs? out of memory|memory limit",
        ("H05", "G04", "signal_killed"),
    ),
    # Slurm's time limit, after six hours.
    _case("baseline-for-the-paper", (ANY,), r"time.?limit|wall.?(clock|time)|--time|requested time|out of time"),
    # The loss is NaN from the middle of epoch 4 on.
    _case("kidneys-in-forty-epochs", ("J01", "nan_loss")),
    # The loss stays at ln 10, and the accuracy at one in ten.
    _case("first-network-for-a-lecture", ("J03",)),
    # 1.9 s of each 2.0 s are waiting for data.
    _case("shoes-and-bags-at-384-pixels", ("D01", "D07"), acceptable=("D02",)),
    # A driver of CUDA 11.4 below a torch of CUDA 12.1.
    _case("protein-folding-homework", (ANY,), "driver", ("A12", "exception")),
    # torch 2.6 does not unpickle the random state that an older Trainer saved.
    _case("dialogue-summaries-part-two", (ANY,), "weights_only|safe_globals", _UNEXPLAINED),
    # The captions were not moved to the GPU.
    _case("captions-in-powershell", ("A13",), acceptable=_UNEXPLAINED),
    # Windows starts workers anew, and a function inside a function cannot be sent to them.
    _case("gestures-on-a-laptop", (ANY,), r"pickle|local (object|function)|module level|num_workers", _UNEXPLAINED),
    # The disk is full when the checkpoint is written.
    _case(
        "basque-speech-at-step-12000",
        (ANY,),
        "no space|(free|disk) space|space left|disk (is )?full|full disk|quota|StorageFull",
        _UNEXPLAINED,
    ),
    # TensorFlow's E-lines about factories, and a page of deprecations; loss and ROUGE improve.
    _case("healthy-summaries-with-foreign-warnings"),
    # A few reads of the object store fail and are tried again.
    _case("healthy-reads-from-the-bucket"),
    # The loss of a diffusion model looks flat after some epochs, while the samples become better.
    _case("healthy-flowers-by-diffusion"),
    # The loss rises with each restart of the learning rate.
    _case("healthy-learning-rate-like-saw-teeth"),
    # Lightning's advice, in colors and with carriage returns.
    _case("healthy-tissue-on-two-cards"),
    # Names of tests that speak of errors, NaN and kills; all pass.
    _case("healthy-tests-come-first"),
    # "can only test a child process": workers that notebooks leave behind.
    _case("healthy-notebook-with-leftovers"),
    # torchrun's banner, strides that do not match, and no checkpoint to resume from.
    _case("healthy-four-ranks-say-hello"),
    # NaN in the table that is read, and one gauge without any level.
    _case("healthy-river-levels"),
)
