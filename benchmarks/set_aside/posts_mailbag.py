"""Logs as clusters and companies keep them, all set aside: Slurm, Kubernetes, torchrun on several nodes, Ray, DeepSpeed, FSDP.

Each comment names the cause. The author had not read the doctor, its rules or its tests.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Clusters and companies, by another author, who had not read the doctor either.
    # Rank 5 of an FSDP run is out of GPU memory.
    _case("nordic-corpus-on-eight-cards", ("H02",), acceptable=("exception", "G04")),
    # ZeRO: the optimizer's states do not fit; one rank of each host tells it.
    _case("question-answering-on-two-hosts", ("H02",), acceptable=("exception", "G04")),
    # The job's memory limit: Slurm's cgroup kills the process.
    _case("pathology-slides-in-an-array-job", ("H05",), acceptable=("G04", "signal_killed")),
    # The pod's memory limit: OOMKilled.
    _case("recommender-in-the-staging-namespace", ("H05",), acceptable=("G04", "signal_killed")),
    # Workers of task 2 are killed for want of memory.
    _case("weather-fields-on-four-tasks", ("H05",), acceptable=("exception", "G04")),
    # Rank 0 evaluates for longer than the timeout of the collective in which the others wait.
    _case("pretraining-around-step-4000", ("G01", "B13"), acceptable=("C08", "cpp_terminate")),
    # The second server does not reach the first.
    _case("street-scenes-on-two-new-servers", ("G03",), r"172\.16\.9\.21|no route", ("exception", "G06")),
    # Ranks 8 to 11 never join.
    _case("retrieval-model-on-a-quarter-rack", ("G03", "G06"), acceptable=("exception", "G04")),
    # Each task takes the first GPU.
    _case("srun-and-four-a100-for-imagenet", ("A07",), acceptable=_UNEXPLAINED),
    # The wheel has no code for Volta.
    _case("speech-enhancer-for-meetings", (ANY,), "sm_?70|capabilit|architecture|built for|kernel image", ("exception", "A12")),
    # The fabric manager does not run.
    _case("reranker-on-the-reinstalled-machine", (ANY,), "fabric.?manager", ("exception", "I10", "A12")),
    # Xid 79 in the journal.
    _case("named-entities-as-a-system-service", ("I05", "I04"), acceptable=_UNEXPLAINED),
    # Rank 6 meets an uncorrectable memory error.
    _case("translation-giant-since-the-weekend", ("I04",), acceptable=("exception", "I05", "G04")),
    # A learning rate of 4: the loss grows from step 800 on.
    _case("ranking-ads-in-april", ("J02",)),
    # The loss stays at ln 100.
    _case("product-photos-in-a-hundred-classes", ("J03",)),
    # Saved from a compiled model, loaded into one that is not.
    _case("resume-on-the-debug-queue", (ANY,), r"_orig_mod|torch\.compile|compiled", ("exception", "C13")),
    # The volume of the checkpoints is full.
    _case("run-eighteen-in-the-shared-namespace", (ANY,), "disk|space|full|quota", ("exception", "G04")),
    # The user has no home, so the cache would be in /.
    _case(
        "sentence-vectors-in-the-nightly-job", (ANY,), "permission|HF_HOME|writable|may not write|cannot write", _UNEXPLAINED
    ),
    # The gateway signs with a certificate that Python does not know.
    _case("tokenizer-for-contracts", (ANY,), r"certificate|\bCA\b|SSL|TLS|proxy", ("exception", "G04")),
    # A typing error in an override.
    _case("parakeet-in-a-pyxis-container", (ANY,), "precison", _UNEXPLAINED),
    # A broken continuation line: the arguments never reach the script.
    _case("sbatch-file-with-many-options", (ANY,), "data-dir|required", _UNEXPLAINED),
    # A distributed script without torchrun or srun.
    _case("video-classifier-for-forty-epochs", (ANY,), r"torchrun|launcher|\bsrun\b|\bRANK\b", ("exception", "A01")),
    # An actor's class holds a client with a lock.
    _case("tuning-a-small-tabular-model", (ANY,), "pickl|serializ", _UNEXPLAINED),
    # /dev/shm of the pod is too small.
    _case("point-labels-with-two-pods", ("D08",), acceptable=("exception", "G04")),
    # Too many open files on rank 1.
    _case("swiss-german-speech-on-node-a07", (ANY,), "open files|descriptor|ulimit|file_system", ("exception", "G04")),
    # The averaged weights stay on the host.
    _case("ukiyo-e-in-fifteen-thousand-steps", ("A13",), acceptable=_UNEXPLAINED),
    # A head takes no part in the loss.
    _case("quantum-chemistry-on-gpu-a-03", ("C09",), acceptable=_UNEXPLAINED),
    # The job's time is up.
    _case("unicorn-restarted-from-step-71000", (ANY,), "time.?limit|wall.?time|--time", ("slurm_cancelled",)),
    # Four GPUs asked for, three in the cluster: the training never starts.
    _case("text-to-sql-on-the-ray-cluster", (ANY,), "enough|insufficient|fewer|only|resource", ("G01", "G06")),
    # Rank 6 looks up a token beyond the embedding.
    _case(
        "telugu-llama-on-two-p4d", (ANY,), "index|vocab|embedding|token|out of (range|bounds)", ("exception", "illegal", "G04")
    ),
    # A port of an InfiniBand adapter fails under rank 19.
    _case(
        "summer-pretraining-on-rack-two",
        (ANY,),
        r"infiniband|\bIB\b|mlx5|\bNIC\b|\bport\b|network",
        ("exception", "I12", "K06", "G04"),
    ),
    # Rank 0 has one batch more.
    _case("search-ranking-at-the-end-of-epoch-zero", ("C07",), acceptable=("C08", "G01")),
    # The environment of the second node lacks torch.
    _case(
        "protein-embeddings-on-a-pair-of-nodes",
        (ANY,),
        r"no module named|not installed|missing|\bimport|lacks",
        ("exception", "module_missing", "G04"),
    ),
    # A server and tests of others fill the card.
    _case("thursday-test-on-the-teams-box", ("H03",), acceptable=("H02", "exception")),
    # The weights under training are in float16, which the scaler refuses.
    _case("support-answers-with-lora", (ANY,), "fp16|float16|half|bf16|float32|fp32", _UNEXPLAINED),
    # A mixture of experts with one spike of the gradient's norm.
    _case("healthy-sparse-experts-by-iterations"),
    # The dynamic loss scale is lowered nine times at first and once later.
    _case("healthy-scale-settles-in-zero-two"),
    # Downloads time out and are resumed.
    _case("healthy-weights-come-through-a-bad-line"),
    # GRPO: a loss about 0, rewards that rise, one preempted request.
    _case("healthy-rewards-from-a-colocated-server"),
    # Sentences with error, nan and killed in them; the word error rate falls.
    _case("healthy-word-errors-fall"),
    # The scheduler of the search stops three of six trials early.
    _case("healthy-search-stops-most-trials"),
    # Missing and unexpected keys, as a new head brings them.
    _case("healthy-tower-with-a-new-head"),
    # The AUC of two batches with one class is nan.
    _case("healthy-sanity-check-knows-one-class"),
    # A traceback of xformers that is only a warning.
    _case("healthy-working-without-optional-packages"),
    # Retries of a data service, and errors as a metric.
    _case("healthy-terrain-heights-from-a-tile-service"),
)
