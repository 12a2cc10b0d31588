"""The open half of the second set: logs and programs, what the doctor should say of each, and why."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case
from accuracy.programs import Program, with_python, with_torchrun

_case = partial(Case, half="open")

LOGS: tuple[Case, ...] = (
    # Kubernetes says it below the log: the container went over its 96 GiB.
    _case("pod-ends-with-137", ("H05",), acceptable=("signal_killed",)),
    # The tokenizer has no chat template, and the configuration names none.
    _case("axolotl-no-chat-template", (ANY,), "chat.template"),
    # One array of the preprocessed data is shorter than its header says; that the workers are gone follows from it.
    _case("nnunet-array-cut-short", (ANY,), "mmap length|greater than file size|truncated|incomplete", ("exception",)),
    # The limit of open files; the message names both remedies.
    _case("timm-too-many-open-files", (ANY,), "ulimit|open files"),
    # The policy's mean is NaN: the network has diverged.
    _case("sb3-policy-turns-nan", ("J01", "nan_loss", "exception", ANY), "nan", ("exception",)),
    # 40 heads do not divide by 3.
    _case("vllm-heads-over-three-gpus", (ANY,), "divisible|attention heads"),
    # Rank 3 has no manifest, at line 40 of 2,000; half an hour later all others time out.
    _case("nemo-first-error-far-up", (ANY,), "train_shard_3|FileNotFound|no such file", ("G04",)),
    # The checkpoint was not written to its end, or not copied whole.
    _case(
        "composer-resumes-from-half-a-file", (ANY,), "central directory|truncated|incomplete|not whole|damaged", ("exception",)
    ),
    # Driver for CUDA 11.4 and a newer wheel.
    _case("driver-older-than-the-wheel", (ANY,), "too old|older than|update the driver|newer driver", ("A12", "exception")),
    # The kernel's line says that the card is gone; the CUDA error follows from it.
    _case("console-and-xid-79", ("I04", "I05"), acceptable=("exception", "illegal")),
    # Four GPUs are asked for, and two are seen.
    _case("lightning-asks-for-four", (ANY,), r"only has|\[0, 1\]|\[0, 1, 2, 3\]|2 GPUs"),
    # Errno 28 while a checkpoint is written; torch's own complaint about positions follows from it.
    _case("checkpoint-fills-the-disk", (ANY,), "space|disk is full|full disk|quota"),
    # The script's name is misspelled.
    _case("sbatch-script-has-a-typo", (ANY,), r"trian_mae\.py|no such file"),
    # NCCL refuses two ranks on one GPU: nobody called set_device.
    _case("two-ranks-on-one-card-nccl", ("A07", ANY), "same (gpu|cuda device)|duplicate|set_device|both on"),
    # A C library that a loader worker calls crashes.
    _case("decoder-crashes-in-a-worker", (ANY,), "segmentation|segfault|SIGSEGV|crash", ("exception",)),
    # A kernel's blocks need more of the SM's shared memory than the card has: neither GPU memory nor /dev/shm.
    _case("own-triton-kernel-wants-too-much", (ANY,), "block size|num_stages|hardware limit", ("exception",)),
    # The optimizer has other groups than the one that was saved.
    _case("resume-with-another-optimizer", (ANY,), "optimizer|parameter group"),
    # A data set calls CUDA in a forked worker.
    _case("cuda-in-a-forked-worker", (ANY,), "spawn|fork"),
    # Node 2 could not activate its environment, so that its rank never joined.
    _case("second-client-never-joins", ("G03",), "1/2|1 of 2|join|rank", ("exception",)),
    # Data: 1.4 s of each 1.78 s.
    _case("timm-over-nfs", ("D01", "D07")),
    # The loss is NAN from iteration 2900 on; Megatron counts the iterations itself.
    _case("megatron-loss-scale-one-nan", ("J01", "nan_loss")),
    # The learning rate is 0 in all 130 lines.
    _case("trainer-rate-is-zero", ("J03",), "rate|lr"),
    # The store of the other pod starts 40 s late; then all goes well.
    _case("healthy-store-is-late"),
    # Error rates, failure cases and word errors are metrics here.
    _case("healthy-metrics-named-error"),
    # Samples that cannot be read are skipped, with a traceback each.
    _case("healthy-broken-images-are-skipped"),
    # A language model writes about out of memory and Killed in its samples.
    _case("healthy-model-writes-about-errors"),
    # The critic's loss grows because the returns do.
    _case("healthy-sac-critic-grows-with-returns"),
    # NaN and skipped iterations are counted, and the counts are 0; the scaler finds its scale at the start.
    _case("healthy-megatron-counts-no-nan"),
    # Inductor tries kernels that do not fit, and takes others.
    _case("healthy-autotune-drops-choices"),
    # A pod waits until its master has a name.
    _case("healthy-pod-waits-for-its-master"),
    # Formerly set aside.
    # The trial asks for 16 GPUs, and the cluster has 4.
    _case("ray-asks-for-more-than-there-is", (ANY,), "resource request|insufficient|cluster|16(.0)? GPUs|autoscal|num_workers"),
    # Open MPI counts fewer slots than ranks are asked for.
    _case("mpirun-has-too-few-slots", (ANY,), "slots"),
    # All losses are nan from epoch 12 on.
    _case("yolov5-table-of-nan", ("J01", "nan_loss")),
)

PROGRAMS: tuple[Program, ...] = (
    # The distance of a pair to itself: its square root has no gradient at 0, and the weights are NaN from there on.
    Program(_case("pairs-with-themselves", ("J01", "nan_loss"), acceptable=("J02",)), with_python("pairs_with_themselves")),
    # Rank 1 has seen its data and writes features, while rank 0 waits in an all_reduce.
    Program(
        _case("writes-while-others-wait", ("G01", "C07"), acceptable=("C08", "G04")),
        with_torchrun("writes_while_others_wait"),
        2,
        onset="last line",
    ),
    # Text is unpacked and cut into words between steps, by the process that trains.
    Program(_case("tokenizes-between-steps", ("D01",)), with_python("tokenizes_between_steps", "--ctx", "64")),
    # A server: bursts of requests, and pauses.
    Program(_case("healthy-http-embedder"), with_python("http_embedder")),
    # Hinge losses, which may be 0 or below, and a moving average of the generator.
    Program(_case("healthy-hinge-gan"), with_python("hinge_gan")),
    # A pool of two workers fits small networks, one after the other, on the one card that it is given.
    Program(_case("healthy-pool-of-fits"), with_python("pool_of_fits")),
    # Formerly set aside.
    # Three hundred batches of validation after every twenty of training.
    Program(_case("validates-all-the-time", ("E07", "B13")), with_python("validates_all_the_time")),
    # Q-learning with a replay buffer: the loss follows the returns, and grows at first.
    Program(_case("healthy-double-dqn"), with_python("double_dqn")),
    # Somebody at a prompt: a few cells, a look at the result, and more cells.
    Program(_case("healthy-session-at-a-prompt"), ("bash", "session_at_a_prompt.sh")),
)
