"""Logs of issues and mails about images, medicine and games, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Worker of batchgenerators: "ValueError: mmap length is greater than file
    # size" - an unpacked .npy of one case is truncated; the rest follows.
    _case("abdominal-organs-residual-encoder", ("array_cut_short",), acceptable=("background_workers", "exception")),
    # A CT with 71 slices is smaller than the 96 slices of the random crop:
    # ValueError inside a transform of a DataLoader worker.
    _case("airways-monai-bundle", ("exception",), acceptable=("last_words",)),
    # The learning rate is too high (0.02 with 2 images, 100 warm-up steps): the
    # losses explode from iteration 140 to Inf/NaN: FloatingPointError.
    _case("cuneiform-tablets-faster-rcnn", ("nan_loss", "J01", "J02"), acceptable=("exception",)),
    # "CUDA error: uncorrectable ECC error encountered", and nvidia-smi counts
    # uncorrectable DRAM errors with a row remap pending.
    _case("crosswalk-cameras-yolov8", ("ecc", "I04"), acceptable=("exception", "I05")),
    # The trial asks for 2 GPUs, the node has 1: it stays PENDING.
    _case("corridor-robot-with-rllib", ("ray_resources",), acceptable=("G01",)),
    # Rank 2's worker got a bus error: the pod's /dev/shm is full.
    _case(
        "cataract-surgery-video-phases",
        ("worker_bus", "D08"),
        acceptable=("worker_killed", "worker_crashed", "child_failed", "exception", "G04"),
    ),
    # Task 5 died of "OSError: [Errno 116] Stale file handle"; ten minutes later
    # the watchdogs of the others end the job.
    _case("cornea-oct-self-supervised", ("file_system",), acceptable=("exception", "G04", "nccl_watchdog", "srun_exit")),
    # An unattended upgrade changed the driver's libraries under the loaded
    # kernel module; the training went on on the CPU.
    _case(
        "dental-cone-beam-workstation",
        (
            "I10",
            "nvml_mismatch",
        ),
        acceptable=("cuda_init", "A12"),
    ),
    # Only rank 0 calls sync_queue's broadcast, the others are in all_gather.
    _case("dermoscopy-contrastive-four-ranks", ("coll_mismatch", "C08"), acceptable=("child_failed", "exception")),
    # Workers: gymnasium NamespaceNotFound (ale-py is not installed/registered);
    # the main process' EOFError only follows.
    _case("asterix-and-qbert-with-zoo", ("exception",), acceptable=("last_words",)),
    # h5py cannot lock the slide's feature file: the extraction still writes it.
    _case("biopsy-slides-attention-mil", ("file_locked",), acceptable=("exception",)),
    # NET/IB completion with status=12 between node02 rank 11 and node01 rank 3.
    _case("city-streets-bev-two-nodes", ("nccl_ib",), acceptable=("nccl_remote", "I12", "K06", "srun_exit", "G04")),
    # The container has no EGL (driver capability "graphics" is missing):
    # ImportError from dm_control.
    _case("dog-run-pixels-dreamer", ("exception",), acceptable=("last_words",)),
    # Labels out of range: nll_loss2d's device-side assert on rank 1.
    _case(
        "alpine-landcover-segmentation",
        (
            "illegal",
            "exception",
        ),
        acceptable=("child_failed", "cpp_terminate", "G04", "last_words", "elastic_exit"),
    ),
    # Overfitting: the training loss falls to 0.01, eval_loss rises from epoch 6.
    _case("coral-bleaching-segformer", ("J05",)),
    # ep_rew_mean climbs to 2300, then falls to -130; critic_loss explodes.
    _case("crawling-ant-soft-actor", ("J06",), acceptable=("J02",)),
    # The first ids of each rank are the same in every epoch: no set_epoch.
    _case("bronchoscopy-depth-from-video", ("C06",), acceptable=("J04",)),
    # Rank 5 waits 1.1 s for its batch (its shard is on NFS), all others wait
    # for it in the all-reduce.
    _case("cell-tracking-eight-cards", ("F01",), acceptable=("D07", "D01")),
    # loss_cls stays at ln(905), loss_triplet at the margin 0.3, mAP below 1 %.
    _case("cattle-muzzle-reid", ("J03",)),
    # GPU 2 heats to 92 C, its clock falls to 690 MHz and the steps double.
    _case("dust-storm-nowcasting", ("I01", "thermal_slowdown"), acceptable=("F02", "E10")),
    # "memory" grows by 14 MB in every step: a hook keeps losses with graphs.
    _case("diabetic-foot-ulcers-detector", ("H06", "E04")),
    # Healthy: noisy GAN losses, slow first tick, pauses for FID, FID falls.
    _case("botanical-plates-stylegan"),
    # Healthy: warnings of torchmetrics, nan for an absent class, a spike of the
    # loss in epoch 6 that recovers.
    _case("breast-density-lightning"),
    # Healthy: noisy reward with a dip, slow first epoch, warnings.
    _case("balancing-quadruped-isaac"),
    # Healthy: curl retries and ignored samples, slow first step of each epoch,
    # GPU 7 kept free on purpose.
    _case("dashcam-captions-openclip"),
    # Healthy: Dice_ET nan in cases without that tissue, one high loss, slow
    # first step.
    _case("brain-gliomas-swin-unetr"),
)
