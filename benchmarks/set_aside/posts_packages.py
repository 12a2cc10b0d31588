"""Logs around wordings of packages beside torch, set aside: written before their author read any pattern."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "by package"
LOGS: tuple[Case, ...] = (
    # A line of JSON is cut off.
    _case("corpus-of-1900-newspapers", (ANY,), r"1931-07|closing quotation|row 1377", _UNEXPLAINED),
    # The newer of two files has one more column.
    _case("two-exports-of-the-ticket-system", (ANY,), "column|escalated", _UNEXPLAINED),
    # The list of hosts lacks a node, or is not there.
    _case("hostfile-of-last-semester", (ANY,), "hostfile", _UNEXPLAINED),
    # ZeRO's optimizer state belongs to 32 ranks, and there are 16.
    _case("resumed-on-half-of-the-nodes", (ANY,), "world size", _UNEXPLAINED),
    # The nodes run different versions of NCCL.
    _case("images-of-two-months", (ANY,), "version", ("exception", "nccl_usage")),
    # The container may not lock memory.
    _case(
        "first-container-on-the-new-fabric", (ANY,), "memlock|ulimit -l|locked", ("exception", "nccl_system", "nccl_connect")
    ),
    # The ranks gather tensors of different sizes.
    _case("cached-feature-on-every-fourth-card", (ANY, "C08"), "size|truncat", ("exception", "nccl_usage", "G01")),
    # Both ranks load the 4-bit model onto the same card.
    _case("small-adapter-on-two-cards", (ANY,), "device_map", _UNEXPLAINED),
    # No GPU is visible.
    _case("course-exercise-seven", (ANY, "A12"), "GPU", _UNEXPLAINED),
    # Lightning wants --ntasks-per-node.
    _case("batch-script-with-eight-tasks", (ANY,), "ntasks-per-node", _UNEXPLAINED),
    # Saves by steps, evaluates by epochs.
    _case("keeps-the-best-of-each-epoch", (ANY,), "strateg", _UNEXPLAINED),
    # Ray's object store is full.
    _case("rollouts-fill-the-store", (ANY,), "object store", _UNEXPLAINED),
    # The class moved elsewhere.
    _case("module-moved-in-a-refactoring", (ANY,), r"src\.models\.depth", _UNEXPLAINED),
    # A node went down.
    _case("pretraining-over-the-weekend", (ANY,), "node", ("G04",)),
    # torchrun is not on the PATH of the batch job.
    _case("works-in-the-interactive-session", (ANY,), "torchrun", _UNEXPLAINED),
    # The driver is too old for the image.
    _case("image-of-this-spring-on-an-old-host", (ANY,), "driver", ("container_gpu", "I10")),
    # The weights are float32.
    _case("attention-switched-in-the-yaml", (ANY,), "fp16|bf16|bfloat16|half", _UNEXPLAINED),
    # xformers was built for another torch.
    _case("diffusers-and-memory-efficient-attention", (ANY,), "built|build|reinstall", _UNEXPLAINED),
    # Python's headers are missing.
    _case("compile-in-a-slim-python", (ANY,), r"Python\.h|python3-dev|header", ("exception", "no_compiler")),
    # A new length in each batch, compiled anew each time.
    _case("lengths-without-padding", (ANY,), "recompil", _UNEXPLAINED),
    # Tied weights.
    _case("saved-after-a-week-of-training", (ANY,), "share memory|save_model|tied", _UNEXPLAINED),
    # A pointer of git-lfs instead of the weights.
    _case("weights-from-a-shallow-clone", (ANY,), "lfs|pointer|download|damaged|incomplete|corrupt", _UNEXPLAINED),
    # Workers that are spawned import the script, which starts workers.
    _case("script-without-a-main", (ANY,), "__main__", ("exception", "D04")),
    # The disk did not give a batch in three minutes.
    _case("videos-on-the-archive-disk", (ANY,), "timed out|timeout|180", _UNEXPLAINED),
    # The checkpoint has no such key.
    _case("layer-was-renamed-before-the-resume", (ANY,), r"Missing key|q_norm", _UNEXPLAINED),
    # Started without a launcher.
    _case("started-with-plain-python", (ANY,), "torchrun|RANK", _UNEXPLAINED),
    # GPT-2 calls its layers otherwise.
    _case("adapter-recipe-for-another-family", (ANY,), "target|q_proj", _UNEXPLAINED),
    # A German shell and a German script.
    _case("healthy-auf-deutsch"),
    # A Chinese log: an error rate, a file that is skipped, an upload that is tried again.
    _case("healthy-in-chinese"),
    # Colors, a progress bar, and counts of errors that are 0.
    _case("healthy-everything-in-red"),
    # Lines of 40 000 characters whose settings name errors.
    _case("healthy-settings-in-one-line"),
    # DeepSpeed looks for its loss scale.
    _case("healthy-scale-is-found-in-four-steps"),
    # Preempted, started again, finished.
    _case("healthy-requeued-at-dawn"),
    # pip complains, with the line ends of Windows.
    _case("healthy-cell-by-cell-with-pip"),
    # Agents that are killed, as games have it.
    _case("healthy-arena-of-two-hundred-agents"),
    # A decoder that calls out at damaged songs.
    _case("healthy-songs-of-a-flea-market"),
    # Warnings of DDP, and noise at the exit.
    _case("healthy-last-words-of-eight-ranks"),
)
