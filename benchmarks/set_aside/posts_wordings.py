"""Logs around wordings of real raise sites, set aside. Split at random with the seed 1126."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "by raise site"
LOGS: tuple[Case, ...] = (
    # The terminal was closed: the launcher got SIGHUP.
    _case("evening-run-and-a-closed-laptop", (ANY,), "SIGHUP|hang-?up|nohup|tmux|terminal", _UNEXPLAINED),
    # Frozen and trained weights share one flat parameter.
    _case("adapters-through-an-older-sharding", (ANY,), "use_orig_params"),
    # Rank 0 is late: what DDP then says of its parameters is garbage.
    _case("rank-zero-lists-eleven-thousand-files", ("G01", "C08"), acceptable=("cpp_terminate",)),
    # The hosts have different versions of NCCL.
    _case("two-images-in-one-job", (ANY,), "truncat|version", _UNEXPLAINED),
    # The image requires a newer driver.
    _case("compose-file-after-an-image-update", (ANY,), "driver", ("container_gpu", "I10")),
    # The scheduler was made for fewer steps.
    _case("point-clouds-in-epoch-281", (ANY,), "total.?steps|Tried to step"),
    # No node has eight free GPUs.
    _case("job-that-nobody-places", (ANY,), r"nvidia\.com/gpu|schedul|place"),
    # The virtual machine's CPU lacks instructions.
    _case("import-on-the-departments-cloud", (ANY,), "illegal instruction|AVX|SIGILL"),
    # The hub limits the rate of requests.
    _case("web-text-read-from-afar", (ANY,), "429|too many requests|rate"),
    # Libraries with thread-local storage are loaded too late.
    _case("board-that-loads-too-many-libraries", (ANY,), "TLS"),
    # Xid 119: the GPU's own processor does not answer.
    _case("kernel-talks-about-a-processor-on-the-card", ("I04", "I05", ANY), "119|GSP|Xid"),
    # The model was wrapped before it was moved.
    _case("wrapped-before-it-was-moved", ("A13", ANY), r"device_ids|cpu|\.to\("),
    # The process group is not destroyed at the end.
    _case("healthy-closes-without-goodbye"),
    # A contrastive loss is flat during the warm-up, and then falls.
    _case("healthy-pairs-look-alike-for-hours"),
    # An elastic run restarts with one more node.
    _case("healthy-third-machine-arrives"),
    # XLA logs what is harmless as errors.
    _case("healthy-compiler-shouts-at-the-start"),
    # DINO's loss rises while the teacher's temperature does.
    _case("healthy-teacher-warms-up"),
    # Experts drop tokens, which is counted as overflow.
    _case("healthy-experts-turn-tokens-away"),
)
