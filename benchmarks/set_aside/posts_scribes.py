"""Logs of requests for help of all kinds, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # OOM at step 174 on a long batch while casting logits to float; the message names it.
    _case("leases-of-small-shops", ("H02", "oom")),
    # Only rank 3 runs out of memory in backward; torchrun ends the others.
    _case("airport-aprons-by-lidar", ("H02", "oom"), acceptable=("G04", "child_failed", "elastic_exit")),
    # The card is full because process 2217904 holds 21.13 of 23.69 GiB; this process uses 2.5 GiB.
    _case("fado-singers-with-vits", ("H03", "oom_other_proc"), acceptable=("H02", "oom", "H04")),
    # torch.arange builds positions on the CPU; index_select gets cpu and cuda:0.
    _case("bakeries-reviewed-in-polish", ("two_devices", "A13")),
    # A linear layer gets float32 input and bfloat16 weights.
    _case("garden-gnomes-by-lora", ("two_dtypes",), acceptable=("exception",)),
    # The flattened features have 32768 entries, fc1 expects 8192.
    _case("hazel-kernels-by-camera", ("shapes",), acceptable=("exception",)),
    # A label is outside the 842 classes (nll_loss assertion) on one rank; it aborts.
    _case(
        "fungi-of-the-beech-forest",
        ("illegal",),
        acceptable=("signal_crash", "cpp_terminate", "G04", "child_failed", "elastic_exit"),
    ),
    # /dev/shm of the container is too small for video batches; workers die by bus error.
    _case("fencing-bouts-in-slow-motion", ("D08", "worker_bus"), acceptable=("worker_killed",)),
    # One spectrogram has 1001 frames instead of 998; default_collate cannot stack.
    _case("bats-over-the-airfield", ("unequal_samples",), acceptable=("exception",)),
    # The DDP checkpoint has module. before every name.
    _case("enamel-pots-in-thirty-one-kinds", ("C13", "module_prefix"), acceptable=("state_dict_names",)),
    # From epoch 14 on every loss is nan; mixed precision with lr 3e-3.
    _case("canal-locks-from-the-air", ("J01", "nan_loss")),
    # 120 classes, loss stays at ln(120) and accuracy at 1/120 for 15 epochs.
    _case("dog-breeds-for-a-thesis", ("J03",), acceptable=("J02",)),
    # Training loss falls to 0, eval_loss rises from 0.94 to 2.24 after epoch 3: overfitting.
    _case("clinic-notes-in-dutch", ("J05",)),
    # Data takes 1.7 of 1.95 s per batch in the timm log.
    _case("confectionery-wrappers-resnet", ("D01",), acceptable=("D07", "D02", "D03")),
    # torch-2.5.0+cpu: training on the CPU at 9.6 s/it, GPU_mem 0G.
    _case("cartons-on-the-loading-dock", ("A12", "cpu_build")),
    # The driver (11.4) is too old for this torch; runs on the CPU.
    _case("graphs-of-inhibitors-hiv", ("A12", "driver_too_old")),
    # torch has no kernels for sm_120.
    _case("locomotives-by-sdxl-lora", ("arch_unsupported", "A12")),
    # 32 GB limit; preloading 4.6 GB per variable; oom_kill.
    _case("heatwaves-of-the-continent", ("H05", "slurm_oom"), acceptable=("killed", "memory_limit")),
    # The Slurm job was cancelled due to its time limit; training was fine.
    _case("icelandic-from-scratch", ("slurm_time_limit",), acceptable=("time_limit", "slurm_cancelled", "stopped")),
    # torch.save cannot write; df shows /data at 100%.
    _case("kites-over-the-dunes", ("disk_full", "checkpoint_write")),
    # Port 29500 is already in use.
    _case("mosses-with-masked-patches", ("G03", "addr_in_use")),
    # Eight ranks each load a 72B model into host memory; local rank 6 is killed by SIGKILL.
    _case("glaciers-explained-by-72b", ("H05", "sigkill"), acceptable=("killed", "child_failed", "elastic_exit", "G04")),
    # Rank 2 gets FileNotFoundError for one image; the others time out ten minutes later.
    _case("fortress-walls-in-3d", ("exception",), acceptable=("G04", "G01", "nccl_watchdog", "child_failed", "signal_crash")),
    # Four Slurm tasks each say rank 0 of 1: four independent trainings writing one file.
    _case("gecko-calls-from-the-hedges", ("A18",), acceptable=("A01", "A02", "C14", "C05", "C03")),
    # Task 6 meets an uncorrectable ECC error; the others report a closed connection.
    _case("hymn-books-between-two-tongues", ("I04", "ecc"), acceptable=("G04", "nccl_remote", "srun_exit", "nccl_peer_closed")),
    # All four ranks use "cuda" = GPU 0; NCCL detects the duplicate GPU.
    _case("jugglers-with-video-mae", ("A07", "nccl_dup_gpu"), acceptable=("srun_exit",)),
    # Four parameters (aux head) get no gradient; DDP complains.
    _case("ibex-on-the-ridge", ("C09", "unused_params", "unused_idx")),
    # Rank 4 waits 1.4 s per step for data; the five others spend this time in the all-reduce.
    _case("lobsters-in-the-creel", ("F01",), acceptable=("D01", "D07", "D03", "E06")),
    # Rank 3 has 1982 batches, the others 2114; after its epoch it calls another collective and all time out.
    _case(
        "manuscripts-of-the-monastery",
        ("C07",),
        acceptable=("C08", "coll_mismatch", "G01", "nccl_watchdog", "child_failed", "signal_crash", "G04"),
    ),
    # torch.load refuses a numpy scalar because weights_only is the default.
    _case("islands-by-altimeter", ("weights_only",), acceptable=("exception",)),
    # The head of the checkpoint has 11 classes, the model 14.
    _case("coins-of-the-old-mint", ("shape_differs",), acceptable=("state_dict_names", "exception")),
    # ep_rew_mean climbs to 226 and then falls to -112; approx_kl and clip_fraction explode.
    _case("cable-cars-over-the-valley", ("J06",), acceptable=("J02",)),
    # The dataset encodes on the GPU inside forked workers.
    _case("harbour-porpoises-on-hydrophones", ("fork_cuda",), acceptable=("exception",)),
    # flash_attn was built for another torch: undefined symbol.
    _case("jasmine-farms-with-llava", ("undefined_symbol",), acceptable=("exception", "deepspeed_exit")),
    # mem grows by 1.8 MiB every step from 3.9 GiB until the 12 GiB card is full.
    _case("lacquer-boxes-by-stylegan", ("H06",), acceptable=("H02", "oom", "E04")),
    # MSE broadcasts [256,1] against [256]; the loss stays at the variance.
    _case("escalators-by-vibration", ("target_size",), acceptable=("J03",)),
    # Seconds per epoch grow from 31 to 147 while the work per epoch stays the same.
    _case("finch-songs-in-the-aviary", ("E10",)),
    # Every step overflows, the loss scale falls to its minimum.
    _case("lectures-on-algebra-zero-two", ("loss_scale", "J01"), acceptable=("nan_loss", "deepspeed_exit")),
    # 9285 images / 16 = 581 batches on each of four ranks: no DistributedSampler.
    _case("butterflies-on-four-cards", ("C05",), acceptable=("C12",)),
    # The Trainer, started without a launcher, wraps the model in DataParallel on four GPUs.
    _case("death-notices-in-old-papers", ("A09", "dp_gather_scalar", "hf_n_gpu"), acceptable=("B07", "B08")),
    # A whisper fine-tuning with many warnings; loss and WER fall.
    _case("healthy-hymns-sung-in-swedish"),
    # GAN: neither loss falls, but the FID does.
    _case("healthy-acorns-by-adversary"),
    # Three overflows of the fp16 loss scale are usual; the loss falls.
    _case("healthy-letters-from-the-islands"),
    # torch.compile makes the first epoch slow; afterwards steady and learning.
    _case("healthy-cells-behind-a-mask"),
    # One spike of the loss at 7250 that recovers within 1000 steps.
    _case("healthy-captions-of-icons-gpt"),
    # The batch size finder tries one that does not fit, then trains normally.
    _case("healthy-moraines-by-deeplab"),
    # A negative log likelihood of densities may fall below zero.
    _case("healthy-jets-by-a-spline-flow"),
    # NCCL_DEBUG=INFO prints failed plug-ins and closed connections; training is normal and ends.
    _case("healthy-kiwi-orchards-on-a-pair"),
    # A sparse reward stays at 0 for half of the training and is then learned.
    _case("healthy-dungeon-with-curiosity"),
    # Resumed with warnings, validation better than training because of dropout; improves.
    _case("healthy-invoices-after-easter"),
)
