"""Logs of jobs that companies and institutes run all the time, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Rank 2 runs out of GPU memory in the forward; the others are only sent SIGTERM.
    _case("vineyard-rows-by-drone-nightly", ("H02", "oom"), acceptable=("elastic_exit", "child_failed")),
    # Rank 5's DataLoader worker meets a missing flac file; the other ranks then time out in an allreduce.
    _case(
        "radio-bulletins-in-eight-shares",
        ("exception",),
        acceptable=("G04", "srun_exit", "srun_killed", "G01", "nccl_watchdog", "signal_crash"),
    ),
    # GPU 0 is full because process 1873204 holds 38 GiB of its 47; this process has only 9.
    _case(
        "permits-of-the-building-office",
        ("H03", "oom_other_proc"),
        acceptable=("H02", "oom", "H04", "elastic_exit", "child_failed"),
    ),
    # A DataLoader worker was killed (SIGKILL): the container ran out of memory with a 22 GiB frame and 8 workers.
    _case("sales-of-shops-weekly-pod", ("H05", "worker_killed")),
    # A DataLoader worker dies by a bus error: /dev/shm of the container is too small.
    _case("parcels-on-the-sorting-belt", ("D08", "worker_bus"), acceptable=("worker_killed",)),
    # Rank 6 meets an uncorrectable ECC error; the NCCL errors of ranks 1 and 4 follow.
    _case(
        "storm-tracks-on-the-juelich-rack",
        ("I04", "ecc"),
        acceptable=("I05", "G04", "srun_killed", "srun_exit", "nccl_remote", "nccl_ib", "signal_crash", "slurm_cancelled"),
    ),
    # DDP: parameters 44-47 did not contribute to the loss.
    _case("video-feed-ranker-three-goals", ("C09", "unused_params", "unused_idx"), acceptable=("elastic_exit", "child_failed")),
    # Port 29500 is taken by another process, so the store cannot start.
    _case("ranking-of-offers-before-breakfast", ("addr_in_use", "G03")),
    # Shard 3 has 409 batches and the others 412: rank 3 enters the validation allreduce (2 elements) while the others are in
    # the gradient allreduce.
    _case("water-clusters-in-four-shards", ("C07", "C08"), acceptable=("G01", "nccl_watchdog", "coll_mismatch", "F03")),
    # Rank 0 tokenizes for over 30 minutes while the others wait in the first barrier, whose store lookup times out.
    _case(
        "newspapers-masked-words-by-cron",
        ("store_timeout", "G03"),
        acceptable=("G01", "F01", "F05", "elastic_exit", "child_failed", "store_lost"),
    ),
    # Four ranks each cache 1204 volumes in memory and Slurm reports an oom_kill.
    _case("pancreas-scans-in-the-clinic-queue", ("H05", "slurm_oom"), acceptable=("srun_killed", "slurm_cancelled", "H06")),
    # The loss becomes nan at step 2000 and stays so; predictions are empty from there on.
    _case("parliament-catalan-conformer-nemo", ("J01", "nan_loss"), acceptable=("J02",)),
    # Rank 1 looks up an index outside of an embedding table: indexSelectLargeIndex assertion.
    _case(
        "wishes-of-callers-in-a-job",
        ("illegal",),
        acceptable=("elastic_exit", "child_failed", "G04", "signal_crash", "exception"),
    ),
    # The checkpoint was saved from a DDP/DataParallel wrapper; its names begin with module.
    _case("schweissnaehte-jede-woche-neu", ("C13", "module_prefix"), acceptable=("state_dict_names",)),
    # The script knows --local_rank, the launcher passes --local-rank.
    _case(
        "rooftops-of-the-cadastre-office",
        ("A17", "local_rank_dash"),
        acceptable=("argparse_unknown", "launch_deprecated", "elastic_exit", "child_failed"),
    ),
    # Writing optimizer.pt fails; the df of the job script shows /outputs at 100%.
    _case("tenders-answered-by-a-small-model", ("disk_full", "checkpoint_write")),
    # torch 2.5.1 has no kernels for sm_120 (RTX 5090).
    _case("sonar-echoes-of-herring-schools", ("A12", "arch_unsupported")),
    # Ray killed a train worker because the node's memory reached 95%.
    _case("shop-search-on-two-ray-nodes", ("H05",), acceptable=("H06", "exception")),
    # Two processes, one visible L4: both ranks on the same CUDA device.
    _case("voices-of-the-tram-stops", ("A07", "nccl_dup_gpu"), acceptable=("elastic_exit", "child_failed", "A03", "A02")),
    # Not all four nodes joined the rendezvous within 900 s.
    _case("photos-and-captions-in-four-pods", ("G03", "rdzv_timeout"), acceptable=("G06",)),
    # The class weights stayed on the CPU.
    _case("payments-as-a-graph-at-two", ("A13", "two_devices")),
    # One window has 668 instead of 672 values (clock change): default_collate cannot stack.
    _case("smart-meters-de-la-comarca", ("unequal_samples",), acceptable=("exception",)),
    # torch.load of torch 2.7 refuses a checkpoint with a numpy scalar.
    _case("quadruped-on-gravel-slopes", ("weights_only",), acceptable=("exception",)),
    # A healthy Megatron run is ended at the Slurm time limit.
    _case("six-billion-in-the-long-queue", ("time_limit", "slurm_time_limit"), acceptable=("stopped", "slurm_cancelled")),
    # The item catalogue grew; the embedding of the checkpoint has 3119 rows fewer.
    _case("recipes-app-daily-refresh", ("shape_differs",), acceptable=("state_dict_names",)),
    # The gated repository refuses the config: no login in the job.
    _case("tariffs-of-insurers-with-axolotl", ("hub_refused",), acceptable=("exception", "elastic_exit", "child_failed")),
    # NCCL_SOCKET_IFNAME=ib0 names an interface that does not exist here.
    _case("proteins-of-the-deep-sea-submitit", ("nccl_no_interface",), acceptable=("srun_exit",)),
    # data_time is 2.07 s of 2.41 s per iteration: the GPUs wait for data.
    _case("railway-wheels-with-rtmdet", ("D01",), acceptable=("D07", "D02", "D03")),
    # 24 workers on 2 CPUs; loading a batch takes 2.98 s, the GPU 0.31 s.
    _case("skin-lesions-in-a-small-pod", ("D02", "too_many_workers"), acceptable=("D01", "D03")),
    # Lightning sees a GPU but trains on the CPU.
    _case("power-demand-of-substations-nightly", ("A12", "pl_gpu_unused")),
    # The loss stays at ln(320)=5.768 and the accuracy at 1/320 for 14 epochs.
    _case("trademarks-in-search-of-twins", ("J03",)),
    # eval_loss rises from 0.81 at epoch 3 to 1.86 while the training loss falls to 0.00x: overfitting.
    _case("tickets-of-a-rail-operator", ("J05",)),
    # The mean return rises to 274 and then falls to -166, with large approx_kl.
    _case("warehouse-forklift-by-ppo", ("J06",)),
    # Allocated GPU memory grows by 0.9 GiB per 100 steps until the GPU is full.
    _case("turbine-blades-inspection-vitdet", ("H06",), acceptable=("H02", "oom")),
    # The step time rises steadily from 128 ms to 590 ms at constant memory.
    _case("stock-of-spare-parts-tabular", ("E10",)),
    # Rank 6's forward+backward takes 0.874 s instead of 0.412 s; the other ranks wait in the allreduce.
    _case("satellite-autoencoder-on-eight-h100", ("F02",), acceptable=("F03", "I01", "I02", "I07", "F05", "E06")),
    # Lightning reports 0 modules in train mode: the model is trained with dropout off.
    _case("product-reviews-deberta-nightly", ("J07", "all_in_eval"), acceptable=("J05",)),
    # fp16 gradients overflow at every step down to the smallest loss scale.
    _case("notary-deeds-seven-b-fp16", ("J01", "loss_scale"), acceptable=("deepspeed_exit",)),
    # DeepSpeed warns of 2-5 allocator cache flushes in every step.
    _case("support-dialogues-of-a-bank", ("E04", "cache_flushes"), acceptable=("H02",)),
    # GAN: adversarial losses swing and G rises, while FID, L1 and LPIPS improve steadily.
    _case("healthy-restorations-of-silent-films"),
    # Negative log-likelihood of a continuous density is below zero and still falls; two harmless bumps in validation.
    _case("healthy-spectra-of-variable-stars-flow"),
    # mAP -1.000 for small and medium only says that no such objects exist; everything else improves.
    _case("healthy-wagons-seen-from-the-side"),
    # The batch size finder reports a failed size of 128 and goes on with 64 as designed.
    _case("healthy-pollen-under-the-microscope"),
    # Three overflows while the loss scale settles and one later are normal in fp16; loss falls.
    _case("healthy-proverbs-in-polish-fp16"),
    # Returns are negative by construction and rise to the optimum near -160; the critic loss grows with the scale of Q.
    _case("healthy-pendulum-crane-in-the-port"),
    # Only common warnings (OMP default, deprecated GradScaler, strides, process group not destroyed); the training runs to
    # its end.
    _case("healthy-ultrasound-of-kidneys"),
    # nan only in the score of a threshold that never occurs; losses fall and scores rise.
    _case("healthy-rain-over-the-black-forest"),
    # Warm restarts raise the loss every 10 epochs, and val_loss is below train_loss because of mixup, dropout and label
    # smoothing.
    _case("healthy-tropical-woods-by-their-grain"),
    # After every checkpoint (each 25 steps) the next 5 steps take about 125 s instead of 30: a stall at regular intervals.
    _case("texts-about-crystals-on-sixteen-gh200", ("E07",), acceptable=("D07", "F05", "E10")),
    # Ranks 1 and 3 run out of GPU memory in backward on a long batch; activation checkpointing is off.
    _case("spare-time-lawyer-with-torchtune", ("H02", "oom"), acceptable=("elastic_exit", "child_failed", "H06")),
    # The first steps are slow as torch.compile works, and one recompilation at step 31; all others take 1.32 s.
    _case("healthy-textbooks-on-eight-h100"),
    # After warm-up to a rate of 3e-3 the loss turns from 3.9 at step 510 and grows to above 7 with growing gradient norms.
    _case("wolof-and-fulani-pretraining", ("J02",), acceptable=("J03",)),
)
