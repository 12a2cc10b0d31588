"""Logs of trainers of language models on clusters, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # One InfiniBand link gave up (status=12, retries exceeded) at node03's rank 21; the watchdog timeouts and SIGABRTs minutes
    # later are followers.
    _case(
        "encyclopaedia-tokens-on-four-nodes",
        ("nccl_ib", "K06", "I12"),
        acceptable=("nccl_remote", "nccl_watchdog", "G04", "G03", "K05"),
    ),
    # Role tokens were added to the tokenizer, the embedding was not resized: an index is out of its range, device-side assert
    # in indexSelectLargeIndex.
    _case("faroese-chat-with-new-tokens", ("exception", "last_words"), acceptable=("child_failed", "illegal", "G04")),
    # Ray's memory monitor killed a WorkerDict: the node's memory was at 95 %, and cpu_memory_used_gb grew in each step.
    _case("geometry-proofs-in-verl", ("H05",), acceptable=("exception", "H06", "memory_limit", "killed")),
    # Gemma's chat template refuses a conversation whose roles do not alternate: TemplateError in the map.
    _case("farm-advice-gemma-chat", ("exception",), acceptable=("last_words",)),
    # A ZeRO checkpoint of 16 ranks is resumed with 8: ZeRORuntimeException.
    _case("glossary-writer-second-half", ("exception",), acceptable=("last_words", "deepspeed_exit", "child_failed")),
    # The loss diverges from iteration 5300 at full learning rate in fp16, the loss scale falls to 1, DeepSpeed stops.
    _case("hungarian-gpt-overnight", ("loss_scale", "J02"), acceptable=("J01", "exception", "deepspeed_exit")),
    # tokenizers 0.19.1 cannot read the newer tokenizer.json: untagged enum ModelWrapper; the OSError is its follower.
    _case("hakka-proverbs-llamafactory", ("tokenizer_newer",), acceptable=("exception", "child_failed")),
    # requirements.txt replaced the container's torch; transformer_engine_torch has an undefined symbol.
    _case("estonian-laws-nemo", ("undefined_symbol",), acceptable=("exception", "srun_exit", "import_name")),
    # The second epoch's checkpoint exceeds the user's disk quota on rank 0; the other ranks' timeouts follow.
    _case(
        "folk-remedies-torchtune",
        ("quota", "checkpoint_write"),
        acceptable=("exception", "G04", "nccl_watchdog", "child_failed", "elastic_exit", "disk_full"),
    ),
    # NCCL cannot bind the NVLS multicast memory (fabric manager or NVSwitches), in each rank of both pods.
    _case("forty-layer-mixture-in-pods", ("nvls",), acceptable=("nccl_cuda", "exception", "child_failed", "elastic_exit")),
    # The reference model was loaded under ZeRO-3 and is called outside of an engine: its embedding is empty, 'weight' must be
    # 2-D.
    _case(
        "hospital-letters-preference-pairs", ("sharded_parameter",), acceptable=("exception", "child_failed", "elastic_exit")
    ),
    # The fourth host never joined: 3/4 clients joined after 901 s; node02's and node03's resets follow.
    _case("granite-hills-on-four-hosts", ("rdzv_timeout", "G06"), acceptable=("rdzv_connection", "exception", "G03")),
    # Rank 5 skips an empty dispatch's all-to-all (drop_empty_dispatch) and is already in the all-reduce of the z loss.
    _case("experts-read-code-reviews", ("coll_mismatch", "C08"), acceptable=("exception", "child_failed", "elastic_exit")),
    # An uncorrectable ECC error on rank 11's GPU; the other ranks' timeouts stand before it in the file, but follow from it.
    _case(
        "grammar-books-sixteen-cards",
        ("ecc", "I04"),
        acceptable=("exception", "G04", "nccl_watchdog", "srun_exit", "slurm_cancelled"),
    ),
    # GPU 3 runs at 1170 MHz and 91 degrees with the thermal slowdown active; all ranks wait for it, the step went 650 -> 1115
    # ms.
    _case("greek-epics-small-decoder", ("I01", "thermal_slowdown"), acceptable=("F02", "E10")),
    # Only rank 0 calls state_dict() of the FSDP model (an all-gather), the others wait in barrier(): the save never ends.
    _case("gazetteer-entries-fsdp", ("C08", "G01"), acceptable=("G03",)),
    # Data loading takes 70 % of each step (no workers, straight from S3); the GPUs idle in between.
    _case("historic-newspapers-olmo", ("D01",), acceptable=("D07",)),
    # srun started eight processes of which each is a world of its own (Num processes: 1, Process index: 0) and trains on
    # everything.
    _case("harbour-manuals-under-srun", ("A18",), acceptable=("A01", "C05", "C14", "C03")),
    # The router (no auxiliary loss, no capacity) sends 65 % of the tokens to rank 5's expert; the others wait in the all-to-
    # all.
    _case("eight-experts-for-weather-reports", ("F03", "F02"), acceptable=("F05", "E10", "E06")),
    # The training loss falls to 0.07, the evaluation loss climbs from 1.85 to 2.78: overfitting from the third epoch.
    _case("grandfather-diaries-sft", ("J05",)),
    # The response key is found in no instance, so all labels are masked: loss 0.0, grad_norm nan, eval_loss nan.
    _case("flashcards-for-nurses-lora", ("J01", "J03"), acceptable=("nan_loss",)),
    # Healthy: skipped iterations while the loss scale settles, one loss spike that recovers, pauses for evaluation and
    # checkpoints.
    _case("eighteen-layers-on-a-rented-pod"),
    # Healthy: a retry of the hub, the enlarged vocabulary's high first losses and gradient norms, warnings about lengths.
    _case("georgian-vocabulary-axolotl"),
    # Healthy: a noisy reward that rises, lr printed as 0.000, falling entropy, a gcs_server error without effect, one
    # preemption.
    _case("grade-school-sums-verl"),
    # Healthy: a slow first step of compilation, a warning about the peak flops, a small spike, pauses for checkpoints, experts
    # that
    # even out.
    _case("forest-inventory-mixture-titan"),
    # Healthy: a requeued job that resumes, refused connections until the judge is up, a few overflows, a NaN for a class
    # without
    # samples, and GPU 7 left to the judge (idle at that moment).
    _case("hausa-headlines-and-a-judge"),
)
