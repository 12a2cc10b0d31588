"""Logs of science, tables and recommendations, from notebooks, containers and Windows, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # The preprocessing job 4471188 still writes the HDF5 file: rank 2 (then all) fails with BlockingIOError, unable to lock
    # file.
    _case("nitrides-with-mace-potentials", ("file_locked",), acceptable=("exception", "srun_exit", "G04")),
    # Windows: 16 spawned workers each import torch and exhaust commit memory (page file): WinError 1455; "exited unexpectedly"
    # follows.
    _case(
        "ozone-profiles-under-windows",
        ("exception", "H05", "fork_memory"),
        acceptable=("worker_killed", "worker_crashed", "too_many_workers", "D02"),
    ),
    # WSL: the dynamic loader finds libcuda.so.1 only, cuDNN wants libcuda.so: "cannot open shared object file", Aborted.
    _case("pollen-counts-in-wsl", ("library_missing",), acceptable=("cudnn_init", "signal_crash")),
    # An item id beyond the embedding's rows (vocabulary of last month): device-side assert in indexSelectLargeIndex on rank 2.
    _case(
        "playlists-by-session-bert4rec",
        (
            "illegal",
            "exception",
        ),
        acceptable=("child_failed", "elastic_exit", "G04", "cpp_terminate", "last_words"),
    ),
    # The headless service of the master is missing, so its name has no address (gai error -2); the time-out follows.
    _case("purchases-of-next-week-pytorchjob", ("rdzv_address",), acceptable=("rdzv_connection", "rdzv_timeout", "G03", "G06")),
    # Lightning wants devices=4 but Slurm starts one task per node: ValueError within Hydra's InstantiationException.
    _case(
        "nowcasts-of-thunderstorms-lightning",
        (
            "A02",
            "pl_slurm_tasks",
        ),
        acceptable=("hydra_call", "exception", "srun_exit"),
    ),
    # 482817 rows = 943 x 512 + 1 with drop_last=False: BatchNorm gets a last batch of one sample.
    _case("readmissions-as-a-wide-table", ("batch_of_one",), acceptable=("exception", "C10")),
    # Every series has 90 days, encoder 180 + 28 wanted: all windows are filtered away, AssertionError of pytorch-forecasting.
    _case("petrol-prices-tft", ("exception", "no_samples")),
    # The DGL graph was left on the CPU while the features are on cuda:0.
    _case("particle-tracks-with-dgl", ("A13", "exception", "two_devices")),
    # GPU 6 fell off the bus (Xid 79 at 03:57:33, in dmesg); ranks' watchdogs time out ten minutes later.
    _case(
        "reanalysis-fourcastnet-eight-cards",
        ("gpu_lost", "xid", "I04", "I05"),
        acceptable=("G04", "nccl_watchdog", "elastic_exit", "exception", "G03"),
    ),
    # Rank 3 has 4127 batches, the others 4211: it evaluates and waits in the metric's average while they wait in gradients'
    # allreduce.
    _case("rides-and-riders-horovod", ("C07", "horovod_stall"), acceptable=("G01", "G03", "C08", "F03")),
    # InfiniBand retries exceeded (status 12) at mlx5_2 of node12, with error counters of that port; others only lose the peer.
    _case(
        "reforecasts-over-two-nodes",
        ("nccl_ib", "I12", "K06"),
        acceptable=("nccl_remote", "nccl_peer_closed", "G04", "srun_exit", "srun_killed", "K05"),
    ),
    # The notebook called model.cuda() before Lightning wanted to fork the ranks.
    _case("quasicrystals-in-a-kaggle-notebook", ("cuda_before_launch",), acceptable=("exception",)),
    # A truncated .npy file: "mmap length is greater than file size" in worker 4 of rank 5.
    _case("radiosonde-arrays-on-eight", ("array_cut_short",), acceptable=("exception", "child_failed", "elastic_exit", "G04")),
    # Training AUC goes to 0.999 while validation loss rises from 0.46 to 2.2 after epoch 9: overfitting.
    _case("pesticides-toxicity-pyg", ("J05",)),
    # Data takes 3.7 of 4.1 s per step; workers are in state D, iowait 37%, NFS reads take 400 ms: slow file system, GPUs idle.
    _case("precipitation-from-zarr", ("D07", "D01")),
    # Every rank prints the same first indices in each epoch with DistributedSampler(shuffle=True): no set_epoch.
    _case("ortholog-pairs-contrastive", ("C06",), acceptable=("J04",)),
    # From step 400 rank 6 computes 1.5 times longer: GPU 6 is at 88 C, 1095 MHz, software thermal slowdown active.
    _case("plasma-turbulence-operator", ("I01", "thermal_slowdown"), acceptable=("F02",)),
    # Allocated memory grows linearly 2.1 -> 23 GB with a constant batch: outputs are appended to a list.
    _case("pump-vibrations-lstm", ("H06", "E04"), acceptable=("stopped",)),
    # Four Slurm tasks, each world_size 1 rank 0, each trains the whole epoch and saves the same file.
    _case("news-for-readers-nrms", ("A18",), acceptable=("A01", "C05", "C14", "C03")),
    # SequentialSampler over rows sorted by the label: batches hold one class only, loss saw-tooths at the same steps each
    # epoch.
    _case("quotes-of-insurers-mlp", ("J04",), acceptable=("J05", "J03")),
    # Healthy: RDKit and sklearn warnings, nan for descriptors that have no positive in the test split.
    _case("odour-molecules-multitask"),
    # Healthy: one slow first iteration, skipped fp16 steps, a loss spike in epoch 6 which recovers; evaluation pauses.
    _case("ocean-temperature-unet"),
    # Healthy: workers retry while the master's pod starts, object store retries succeed, checkpoint pauses, small first qps.
    _case("offers-in-the-feed-torchrec"),
    # Healthy: RL score is noisy and dips at step 121 as the diversity filter starts; loss is not meant to fall.
    _case("new-ligands-by-reinforce"),
    # Healthy: the small T400 drives the monitors and is hidden on purpose; epoch 1 fills a cache; nan of an absent class.
    _case("rocket-engine-sensors-notebook"),
)
