"""Logs of a cluster's help desk and of popular trainers, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # mmdet DINO Swin-L on 4 A5000: rank 2 runs out of GPU memory on a large batch; the launcher then ends the others. The
    # CUDA out of memory line of rank 2 shows it.
    _case("nuthatches-at-the-feeder", ("H02", "oom"), acceptable=("child_failed", "G04", "H06")),
    # Full fine-tuning of Stable Diffusion in float32 with EMA on a 16 GB V100: the optimizer's states do not fit in the first
    # step.
    _case("oil-paintings-for-the-seminar", ("H02", "oom")),
    # Whisper fine-tuning on a shared workstation: another process holds 30.7 of 47.5 GiB, as the out-of-memory message names
    # with its PID.
    _case("oral-histories-with-whisper", ("H03", "oom_other_proc"), acceptable=("oom", "H02", "H04")),
    # detectron2: max_mem rises by about 84 MB in every 20 iterations without end until the 2080 Ti is full; ends in CUDA out
    # of memory.
    _case("oysters-on-the-reef-flats", ("H06", "H02", "oom")),
    # YOLOv8 in a container: two of 16 workers die of a bus error, because /dev/shm is too small for 960-pixel batches.
    _case("parking-lots-from-the-roof", ("D08", "worker_bus"), acceptable=("worker_killed",)),
    # Recommender under Slurm: task 2 is killed at the job's memory limit while every rank reads all parquet files; the other
    # ranks report a closed gloo connection.
    _case(
        "podcasts-for-late-listeners", ("H05", "slurm_oom"), acceptable=("C05", "G04", "gloo_peer", "srun_exit", "srun_killed")
    ),
    # nnU-Net: a background worker of batchgenerators is gone without a message of its own (mostly for lack of memory, which
    # the log does not show).
    _case("pancreas-fold-three", ("background_workers",), acceptable=("H05", "worker_killed")),
    # Segmentation on two GPUs: rank 1 meets labels outside 0..6, and nll_loss2d asserts `t >= 0 && t < n_classes`.
    _case("rice-paddies-by-drone", ("illegal",), acceptable=("child_failed", "G04")),
    # DETR variant under DDP: six parameters of an unused head get no gradient, so the second iteration fails in the reducer.
    _case("roundabouts-and-crossings", ("C09", "unused_params", "unused_idx"), acceptable=("child_failed",)),
    # A checkpoint saved from DDP on 4 GPUs is loaded into the bare model: all names differ by 'module.'.
    _case("speakers-of-low-german", ("C13", "module_prefix"), acceptable=("state_dict_names",)),
    # torch 2.6 refuses the old checkpoint because it contains a NumPy scalar.
    _case("thunder-and-rain-tagging", ("weights_only",)),
    # GraphSAGE on ogbn-arxiv: in the evaluation edge_index is still on the CPU while features and model are on cuda:0.
    _case("papers-and-their-citations", ("A13", "two_devices")),
    # nanoGPT on an RTX 5090 with a torch build that lacks sm_120: warning at the start and 'no kernel image'.
    _case("novels-in-the-basement-lab", ("arch_unsupported", "A12")),
    # A second torchrun on a shared node: port 29500 is taken by the first job.
    _case("pollinators-in-the-meadow", ("G03", "addr_in_use")),
    # Four Slurm tasks all use CUDA device 3b000 (nothing sets the device per rank); NCCL reports duplicate GPUs.
    _case("spin-glasses-on-the-teaching-partition", ("A07", "nccl_dup_gpu"), acceptable=("A08", "srun_exit")),
    # torch.distributed.launch passes --local-rank, but the script knows only --local_rank.
    _case(
        "roads-after-the-flood",
        ("A17", "local_rank_dash"),
        acceptable=("launch_deprecated", "argparse_unknown", "child_failed"),
    ),
    # Only rank 0 enters the validation with its all_reduce, while the others go on to the next step (broadcast of buffers);
    # the debug wrapper names both collectives.
    _case("theses-of-the-faculty", ("C08", "coll_mismatch"), acceptable=("child_failed", "B13")),
    # timm on 8 ranks: rank 5 dies at an image file that PIL cannot identify; ten minutes later the others' watchdogs report
    # the all-reduce.
    _case("plankton-in-forty-classes", ("exception",), acceptable=("G04", "srun_exit", "G01", "nccl_watchdog")),
    # FSDP on 8 A100: rank 6's GPU reports an uncorrectable ECC error; ranks and launcher follow.
    _case("watersheds-of-the-andes", ("I04", "ecc"), acceptable=("I05", "G04", "child_failed", "signal_crash")),
    # Slurm ends the job at its one-day limit after 71 of 300 epochs.
    _case("tokamak-surrogate-campaign", ("slurm_time_limit",), acceptable=("time_limit", "slurm_cancelled")),
    # Rank 0 cannot write the checkpoint: the quota of the home directory is used up (errno 122).
    _case("parliament-debates-in-basque", ("quota",), acceptable=("checkpoint_write", "disk_full", "child_failed")),
    # The compute node has no way to huggingface.co and the model is not in the cache.
    _case("nurse-notes-triage", ("hub_offline",), acceptable=("srun_exit",)),
    # flash-attn was built for another torch: its library has an undefined c10 symbol.
    _case("thermodynamics-tutor", ("undefined_symbol",), acceptable=("child_failed",)),
    # Rank 1's loader gets one sample of 1187 frames instead of 1200, which cannot be stacked.
    _case("whispered-speech-corpus", ("unequal_samples",), acceptable=("child_failed", "G04")),
    # Four of eight ranks (those of the first node) reach the store; rank 0 gives up after 600 s, the other three report the
    # lost store.
    _case(
        "storm-surges-on-two-nodes",
        ("G03", "rdzv_timeout"),
        acceptable=("store_lost", "K02", "G04", "K03", "G06", "srun_exit", "store_timeout"),
    ),
    # fairseq in fp16 with lr 5e-3: the loss rises, gradients overflow until the loss scale reaches its minimum.
    _case("sami-to-norwegian", ("J01", "loss_scale"), acceptable=("J02",)),
    # Four ranks load a 70B model into host memory at once; local rank 2 is killed with SIGKILL at shard 11 of 15.
    _case("philosophy-dialogues-seventy-b", ("H05", "sigkill"), acceptable=("child_failed", "G04", "killed")),
    # mmsegmentation: data_time 2.2 s of 2.6 s per iteration with two workers on an NFS.
    _case("quarries-from-orbit", ("D01",), acceptable=("D07",)),
    # LoRA fine-tuning: from step 150 grad_norm is nan and the loss is printed as 0.0 to the end.
    _case("veterinary-reports-lora", ("J01", "nan_loss")),
    # ViT-S with SGD at lr up to 0.8: loss stays at ln(100) = 4.605 and Acc@1 at 1 % for six epochs.
    _case("textiles-of-the-museum-store", ("J03",), acceptable=("J02",)),
    # Keras: training loss falls to nearly 0, while val_loss rises from epoch 7 on and val_accuracy falls.
    _case("xylem-cross-sections", ("J05",), acceptable=("J02",)),
    # SB3 PPO: ep_rew_mean rises to about 90 and then falls below the start, with approx_kl of 0.1.
    _case("sailboat-in-gusty-wind", ("J06",), acceptable=("J02",)),
    # Ultralytics runs on the CPU with a +cpu build of torch: GPU_mem 0G and 22 minutes per epoch.
    _case("solar-panels-with-cracks", ("A12", "cpu_build")),
    # Trainer was started with plain python on 4 GPUs: total batch 64 = 4 x 16 and the gather warning show nn.DataParallel.
    _case("press-releases-of-ministries", ("A09", "hf_n_gpu", "dp_gather_scalar"), acceptable=("A01", "B07", "B08")),
    # srun starts four tasks, but each says world_size 1, takes all 1731 steps and writes the same file.
    _case("spiral-galaxies-by-srun", ("A18",), acceptable=("A01", "C14", "C05", "C03")),
    # nanoGPT: the time of an iteration rises steadily from 0.39 to 1.3 s, mfu falls from 38 to 13 %.
    _case("shakespeare-and-contemporaries", ("E10",)),
    # DeepSpeed ZeRO-3: nearly every step warns that the allocator flushed its cache, and steps take 20 to 28 s.
    _case("tax-law-answers", ("E04", "cache_flushes")),
    # Lightning: all 230 modules are in evaluation mode at the start of the training (no dropout), as summary and warning say.
    _case("orchids-in-the-greenhouse", ("J07", "all_in_eval"), acceptable=("J05",)),
    # The MSE loss broadcasts [512] against [512, 1]; hence mse stays at 1.0 and R2 at 0.
    _case("rents-in-the-old-town", ("target_size",), acceptable=("J03",)),
    # Every 25th step takes 9 to 10 s, the others 0.74 s.
    _case("open-textbooks-gpt", ("E07",), acceptable=("D01", "F05")),
    # pix2pix: adversarial losses swing as usual, while the L1 loss falls slowly.
    _case("healthy-streetmaps-from-photos"),
    # DeepSpeed fp16: the dynamic loss scale comes down from 2^32 over 15 skipped steps, then the loss falls normally.
    _case("healthy-yiddish-newspapers"),
    # CTC: the usual plateau at 2.9 with WER 100 % for six epochs, then the model learns.
    _case("healthy-udmurt-phone-calls"),
    # Pendulum: all returns are negative by construction and rise from -1240 to about -150; the actor's loss rises, too.
    _case("healthy-pendulum-for-students"),
    # YOLOX: in the last 15 epochs mosaic ends and an L1 loss is added, so the loss changes; AP -1.000 means that there are no
    # small objects.
    _case("healthy-rowing-boats"),
    # Lightning's batch size finder fails at 32 by design and continues with 16; early stopping ends a normal training.
    _case("healthy-venules-and-arterioles"),
    # torch.compile: the first step (94 s) and the first evaluation compile, everything else runs at a constant speed.
    _case("healthy-oceanography-abstracts"),
    # NCCL's INFO output with 'No device found' and 'No plugin found' is normal on one node; the VAE trains with a beta
    # schedule.
    _case("healthy-nebulae-on-eight-cards"),
    # nnU-Net: Dice of two small structures is 0 in the first epochs and then rises; negative losses are normal.
    _case("healthy-thymus-scans"),
    # Transformers: usual warnings and a W&B network error that resolved itself; the training finishes with a falling loss.
    _case("healthy-witness-statements"),
)
