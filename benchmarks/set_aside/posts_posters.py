"""Attachments of issues of open-source trainers, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Rank 5 of 8 (a middle pipeline stage) runs out of GPU memory at iteration 15: torch.OutOfMemoryError names GPU 5; the
    # launcher then stops the others.
    _case("nordic-newspapers-by-megatron", ("H02", "oom"), acceptable=("child_failed", "G04")),
    # ZeRO-3 offload fills the host memory while optimizer states are created (75.7% used and growing), local rank 1 gets
    # SIGKILL (exit code -9).
    _case("notary-deeds-with-llama-factory", ("H05", "sigkill"), acceptable=("G04", "child_failed", "killed")),
    # Rank 11 on the second node leaves with EOFError (a truncated gzip file); ten minutes later the other ranks time out in
    # an all-gather and abort.
    _case(
        "oceania-web-text-with-torchtitan",
        ("exception",),
        acceptable=("G04", "G01", "nccl_watchdog", "child_failed", "F01", "signal_crash", "elastic_exit"),
    ),
    # The trainable LoRA weights are float16 with fp16 mixed precision: GradScaler raises "Attempting to unscale FP16
    # gradients."
    _case("opera-posters-with-diffusers", ("unscale_fp16",), acceptable=("exception",)),
    # Rank 3 calls an all-reduce of the loss while ranks 0, 1 and 2 call a reduce-scatter of gradients: "Detected mismatch
    # between collectives on ranks".
    _case("puppet-theatre-clips-open-sora", ("C08", "coll_mismatch"), acceptable=("G04", "child_failed")),
    # A label on rank 2 is outside the five classes (assertion t >= 0 && t < n_classes in the NLL loss); rank 2 aborts, the
    # launcher stops the others.
    _case(
        "poppies-and-cornflowers-mmdet",
        ("illegal",),
        acceptable=("signal_crash", "G04", "child_failed", "exception", "python_fatal", "cpp_terminate"),
    ),
    # /dev/shm of the container is too small for 16 workers: bus error in a DataLoader worker.
    _case("parcels-on-the-belt-yolo", ("D08", "worker_bus"), acceptable=("H05",)),
    # The loss explodes during the warm-up with a base rate of 0.08 and becomes NaN at iteration 184; Detectron2 raises
    # FloatingPointError.
    _case("rapeseed-fields-detectron", ("J01", "nan_loss"), acceptable=("J02", "exception")),
    # Six parameters of the model (894-899) take no part in the loss: DDP refuses the second iteration on both ranks.
    _case("piglets-in-the-pen-mmpose", ("C09", "unused_params", "unused_idx"), acceptable=("child_failed",)),
    # The code uses np.float, which the installed NumPy no longer has: AttributeError in a DataLoader worker.
    _case("runners-in-the-stadium-bytetrack", ("exception",), acceptable=("numpy_bridge",)),
    # On rank 2 the system kills a DataLoader worker (signal: Killed); the three other ranks see the peer close its
    # connection.
    _case(
        "parliament-speeches-espnet", ("H05", "worker_killed"), acceptable=("G04", "nccl_remote", "nccl_peer_closed", "killed")
    ),
    # The vocabulary of the fine-tuning data has 2871 symbols, the checkpoint 2545: size mismatch of the text embedding.
    _case("uyghur-voices-f5", ("shape_differs",), acceptable=("exception", "child_failed")),
    # The trainer wants 4 devices per node, but Slurm starts one task per node; Lightning refuses.
    _case("swahili-radio-nemo", ("A02", "pl_slurm_tasks"), acceptable=("srun_exit", "exception")),
    # Host memory climbs by 20 GB a step (perf/cpu_memory_used_gb) until Ray kills a worker because the node runs low on
    # memory.
    _case("puzzles-with-verl", ("H05",), acceptable=("H06", "exception")),
    # The value loss explodes from 0.02 to inf within three iterations; then the policy's standard deviation is NaN and
    # torch.normal refuses it.
    _case("pony-gait-in-isaac-lab", ("J01", "nan_loss", "exception"), acceptable=("J02", "J06")),
    # torchcodec cannot be loaded in the workers, as no FFmpeg library (libavutil.so.*) is installed.
    _case("spatula-and-pan-lerobot", ("library_missing", "exception")),
    # The features stay on the CPU while the model is on cuda:0: the linear layer gets tensors from two devices.
    _case("papers-and-their-citations-ogb", ("A13", "two_devices"), acceptable=("exception",)),
    # The launcher cannot log in to the second host (Permission denied (publickey)), so only the first host starts and waits
    # in vain for the other.
    _case("routes-of-cyclists-dgl", ("G03", "ssh_failed"), acceptable=("G06", "G01", "store_timeout", "rdzv_timeout")),
    # In epoch 5 a background worker of nnU-Net disappears without a print of its own (as when the system kills it).
    _case("pancreas-in-thin-slices-nnunet", ("background_workers", "H05"), acceptable=("exception", "worker_killed")),
    # A compressed volume is damaged: zlib error in a DataLoader worker of rank 1 (LoadImaged), torchrun stops the other
    # ranks.
    _case("spines-with-monai", ("exception",), acceptable=("child_failed", "G04", "checkpoint_damaged")),
    # Rank 3 reports an uncorrectable ECC error of its GPU; other ranks only lose the connection.
    _case(
        "peptides-with-openfold-a-cluster",
        ("I04", "ecc"),
        acceptable=("G04", "nccl_remote", "nccl_peer_closed", "srun_exit", "exception", "I05"),
    ),
    # The disk is full: the checkpoint cannot be written (file write failed, unexpected pos) and the log reports "No space
    # left on device".
    _case("perovskites-with-mace", ("disk_full",), acceptable=("checkpoint_write", "exception")),
    # Slurm kills task 6 for host memory (oom_kill event, Out Of Memory); other ranks see a closed connection.
    _case(
        "thunderstorm-nowcast-anemoi",
        ("H05", "slurm_oom", "memory_limit"),
        acceptable=("G04", "nccl_remote", "nccl_peer_closed", "srun_killed", "H06"),
    ),
    # The driver (CUDA 11.4) is too old for torch 2.5.1+cu124, so torch sees no GPU and Lightning refuses accelerator="gpu".
    _case("subscribers-who-leave-tabular", ("A12", "driver_too_old"), acceptable=("lightning_devices", "exception")),
    # All four ranks use cuda:0 (bus id 101c0) instead of their own GPU: NCCL reports "Duplicate GPU detected".
    _case("products-of-the-bazaar-torchrec", ("A07", "nccl_dup_gpu"), acceptable=("srun_exit", "A18", "A03", "exception")),
    # train.py with --launcher pytorch was started by plain python: the variable RANK is missing (KeyError).
    _case("street-crossings-sparsedrive", ("A01", "env_rdzv_missing"), acceptable=("exception",)),
    # Port 29500 for the rendezvous is already in use on this machine (EADDRINUSE).
    _case("photos-of-ferries-llava", ("G03", "addr_in_use"), acceptable=("deepspeed_exit",)),
    # After 2600 iterations (learning rate 6e-3) train and validation loss climb from 3.95 to 8 and do not come back.
    _case("swedish-tales-nanogpt", ("J02",), acceptable=("J03",)),
    # The time of an iteration grows steadily from 1.48 s to 2.5 s within a night, at the same loss and batch size.
    _case("patents-in-a-long-pretraining", ("E10",), acceptable=("I01", "H06", "E06")),
    # 1.9 of the 2.1 seconds of a step are waiting for data (Data: column), all through both epochs.
    _case("plankton-with-timm", ("D01",), acceptable=("D07", "D03", "D05")),
    # 24 workers for each of two ranks on 4 cores (DataLoader warning); 80 % of each step is waiting for data.
    _case("reefs-masked-autoencoder", ("D02", "too_many_workers", "D03"), acceptable=("D01", "D07")),
    # One process with n_gpu: 4: the Trainer wraps the model in nn.DataParallel (batch size adjusted to 32, gather warning).
    _case("poems-of-the-provinces-run-clm", ("A09", "hf_n_gpu", "dp_gather_scalar"), acceptable=("B08", "A01")),
    # Rank 6 computes 1.8 times as long as the others in forward and backward; the others spend the difference in all-grads-
    # sync.
    _case("questions-of-pupils-megatron", ("F02",), acceptable=("F05", "F03", "I01", "I02", "I07", "I06", "F01", "K01", "D10")),
    # The training loss falls to 0.017 while the validation loss doubles from its minimum of 0.65 in epoch 3 and the rank
    # correlation falls.
    _case("proteins-of-a-yeast-esm", ("J05",)),
    # The mean return rises to 466 and then falls below its start, while approx_kl grows tenfold.
    _case("tumbling-robot-sb3", ("J06",), acceptable=("J02",)),
    # The loss stays at 333.40 = 481 batches x ln 2 for 22 epochs and the metrics do not move (learning rate 1e-08).
    _case("prunes-and-other-groceries-recbole", ("J03",)),
    # Four processes were started, but each says "Running with a single process. Device cuda:0", world_size: 1, and trains on
    # all the data.
    _case("portraits-of-sailors-openclip", ("A18", "A07"), acceptable=("C05", "A02", "A03", "C03", "A01")),
    # num_gpus is 0.0 for each client though Ray sees two GPUs, so the clients train a ResNet on the CPU ("resnet18 on cpu").
    _case("tiles-of-clinics-flower", ("A12",)),
    # From the third epoch all losses are nan and mAP is 0 (AMP on a GTX 1660).
    _case("vans-and-lorries-yolov8", ("J01", "nan_loss"), acceptable=("J05",)),
    # DeepSpeed warns in each step that the allocator flushed its cache under memory pressure; steps take 38 s.
    _case("stories-of-travellers-deepspeed", ("E04", "cache_flushes"), acceptable=("H02", "H06")),
    # A normalising flow: the negative log-likelihood becomes negative and keeps falling, train and validation together.
    _case("healthy-rhine-flow-gauges"),
    # StyleGAN2-ADA: the first tick is slow, memory falls after it, the augmentation grows and FID improves steadily.
    _case("healthy-playbills-stylegan"),
    # nnU-Net: the loss is negative and one class has Dice 0.0 for the first epochs, then both improve.
    _case("healthy-prostate-in-mr-nnunet"),
    # fairseq: three gradient overflows lower the loss scale at the start, as usual in fp16, then the loss falls.
    _case("healthy-romansh-to-german-fairseq"),
    # DeepSpeed fp16: six skipped steps while the loss scale is found (learning rate 0 till then), then a smooth fall.
    _case("healthy-statutes-of-towns-deepspeed"),
    # SAC on Pendulum: all returns are negative and noisy, and rise from -1480 to about -160.
    _case("healthy-swinging-pendulum-cleanrl"),
    # DINO starts at ln(65536) = 11.09 and falls slowly during the warm-up; data time is near zero after the first iteration.
    _case("healthy-thermal-portraits-dino"),
    # The batch-size finder tries sizes until 128 fails, goes on with 64, and the training ends as planned.
    _case("healthy-songbirds-at-dawn-lightning"),
    # Fine-tuning to two classes: the skipped heads are expected, APl is nan as no large object exists, and the loss falls.
    _case("healthy-vessels-from-radar-detectron"),
    # Small training set, plateau after four epochs with a halving learning rate: early-stopping counters appear but the run
    # is as expected.
    _case("healthy-wind-farms-time-series-library"),
)
