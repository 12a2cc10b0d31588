"""Set aside: logs and programs, what the doctor should say of each, and why. See the package for who may read this."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="set aside")

LOGS: tuple[Case, ...] = (
    # Slurm's cgroup killed a process of task 3 for memory.
    _case("slurm-cgroup-took-task-three", ("H05",), acceptable=("signal_killed",)),
    # 3 x 2 does not divide by 8 generations.
    _case("trl-generations-do-not-divide", (ANY,), "divisible|generations"),
    # The validation images are not where the YAML says.
    _case("ultralytics-images-not-found", (ANY,), r"images not found|missing path|data\.yaml"),
    # 135 bytes that begin with "version https://git-lfs": a pointer, not weights.
    _case("weights-are-an-lfs-pointer", (ANY,), "LFS|pointer|download|not a (torch )?checkpoint", ("exception",)),
    # Ranks built embeddings of different size, from vocabularies of their own.
    _case("vocabularies-differ-between-ranks", (ANY,), "sizes|shape|same param|differ", ("exception",)),
    # Rank 5 ran out of GPU memory at line 37 of 2,000; the timeouts follow.
    _case("first-error-is-an-oom-far-up", ("H02",)),
    # The checkpoint's head has 1,000 classes and the model's 37.
    _case("head-of-another-data-set", (ANY,), "size mismatch|shape|head"),
    # The container was started without --nv.
    _case("apptainer-without-nv", ("I10", "container_gpu", "A12", ANY), "driver|--nv|container"),
    # ECC found an error that it cannot correct: the card, not the script.
    _case("card-with-bad-memory", ("I04", "I05", ANY), "ECC|uncorrectable", ("exception",)),
    # The config names a module that nobody imports.
    _case("mmengine-module-not-registered", (ANY,), "registry|registered|custom_imports"),
    # Checkpoints of 38 GB on the node's own disk.
    _case("pod-evicted-by-its-own-checkpoints", (ANY,), "ephemeral|disk|storage|evict"),
    # Another job has a higher priority.
    _case("preempted-by-a-higher-queue", (ANY,), "preempt"),
    # Rank 2 submits other tensors, or none.
    _case(
        "horovod-misses-rank-two",
        ("C08", "G01", ANY),
        r"rank 2|ranks?:? 2|different (collectives|tensors)|missing rank",
        ("G04",),
    ),
    # A lambda cannot be sent to a worker that is spawned.
    _case("dataset-with-a-lambda", (ANY,), "pickle|lambda"),
    # The gradients overflow at every scale: training has diverged.
    _case("zero-cannot-lower-its-scale", ("J01", "J02", ANY), "loss scale|overflow|diverge", ("exception",)),
    # Nobody has accepted the model's terms with this account, or no token is there.
    _case("gated-weights-without-a-token", (ANY,), "gated|access|token|authenticat"),
    # A name of the hostfile has no address, so that node 1 never starts.
    _case("worker-of-the-hostfile-has-no-address", ("G03", ANY), "dgx-b|resol|hostname"),
    # data: 1.6 s of 2.0 s.
    _case("cyclegan-waits-for-its-photos", ("D01", "D07")),
    # It falls to 3.6, and then grows twentyfold.
    _case("fairseq-loss-climbs-again", ("J02", "J01")),
    # Slurm's time is over; Lightning requeues the job, goes on and ends.
    _case("healthy-requeued-by-slurm"),
    # A few steps are skipped while the scale is found, and now and then later.
    _case("healthy-apex-lowers-its-scale"),
    # Classes that the validation images lack have an IoU of nan.
    _case("healthy-classes-absent-from-validation"),
    # What loaders and process groups print as the interpreter shuts down.
    _case("healthy-noise-after-the-last-epoch"),
    # A server that runs near the limit of its cache; a bad request of a client.
    _case("healthy-server-preempts-requests"),
    # Two trials of forty end in nan, and the study goes on.
    _case("healthy-study-with-failed-trials"),
    # A negative log-likelihood of a density may be negative, and goes on falling.
    _case("healthy-flow-goes-below-zero"),
    # Deprecations, a tracker without a network, a secret that nobody needs.
    _case("healthy-offline-tracker-and-futures"),
)

PROGRAMS: tuple[Program, ...] = (
    # A linear decay whose length is that of one epoch: the rate is 0 from there on, and the loop goes on.
    Program(_case("decays-to-nothing", ("J03",)), with_python("decays_to_nothing")),
    # Rank 1 of two that mp.spawn started divides by a count that is 0.
    Program(
        _case("spawned-rank-divides-by-zero", ("exception",), "ZeroDivisionError", ("G04", "LOG")),
        with_python("spawned_rank_divides_by_zero"),
        2,
        onset="end",
    ),
    # Unequal numbers of batches, which torch's Join takes care of.
    Program(_case("healthy-joined-ranks"), with_torchrun("joined_ranks"), 2),
)
