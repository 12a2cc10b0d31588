"""Logs of trainings on clusters and workstations, of weather, materials and genes, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # NCCL's completion error with status 12 on rank 42 (node211, mlx5_2) is first; the
    # closed connections of ranks 37 and 7 follow.
    _case("basin-rainfall-on-sixteen-nodes", ("nccl_ib", "I12", "K06"), acceptable=("nccl_remote", "nccl_peer_closed", "G04")),
    # Rank 3 has one batch less (421 instead of 422), goes to the validation and waits in
    # another collective; Horovod's stall inspector lists it.
    _case("bolometer-tomography-horovod", ("horovod_stall", "C07", "C08", "G01"), acceptable=("G03",)),
    # Lustre evicted node0318: errno 108 in a loader's worker of rank 9; the other ranks'
    # watchdogs time out ten minutes later.
    _case("enhancers-across-eleven-tissues", ("file_system",), acceptable=("exception", "G04", "child_failed")),
    # Xid 79: GPU 41:00.0 has fallen off the bus; torch says "unspecified launch failure".
    _case("dendrites-on-two-cards", ("gpu_lost", "I05", "xid", "I04"), acceptable=("exception", "G04", "child_failed")),
    # srun starts ranks of an Open MPI that was built without PMI.
    _case("eddies-of-the-gulf-stream", ("mpi_launch",), acceptable=("srun_exit", "mpi_exit")),
    # ibv_create_cq fails with "Cannot allocate memory": ulimit -l is 64 KiB on the nodes.
    _case("codons-of-nine-hundred-yeasts", ("nccl_ib_memory",), acceptable=("nccl_ib_call", "nccl_sys", "exception")),
    # readout() reads the weight of an embedding that FSDP keeps in shards: 'weight' must be 2-D.
    _case("electron-densities-fsdp", ("sharded_parameter",), acceptable=("exception", "G04", "child_failed")),
    # A damaged zarr chunk: "error during blosc decompression: -1" in a worker of rank 6.
    _case("cyclone-tracks-from-reanalysis", ("exception",), acceptable=("G04", "srun_exit", "last_words")),
    # Slurm cancelled the job because node122 failed; the NCCL errors come from its neighbours.
    _case(
        "dislocations-in-tungsten",
        ("slurm_preempted", "slurm_cancelled"),
        acceptable=("G04", "nccl_peer_closed", "nccl_remote", "nccl_connect", "K03"),
    ),
    # MASTER_ADDR is the unexpanded node list node[041-044]: the name has no address.
    _case("drought-index-seasonal", ("rdzv_address",), acceptable=("G03", "exception")),
    # Every step overflows from step 260 on; DeepSpeed's loss scale is at its minimum.
    _case("chromatin-language-model", ("loss_scale", "J01"), acceptable=("exception", "deepspeed_exit", "G04")),
    # One micrograph is no MRC file (zeros): ValueError of mrcfile in a worker of rank 1.
    _case("cryo-particles-before-the-beamtime", ("exception",), acceptable=("G04", "last_words")),
    # Rank 5 meets a CIF file without structures; the NCCL errors of rank 2 follow.
    _case("cathode-crystals-alignn", ("exception",), acceptable=("G04", "child_failed", "last_words")),
    # Apptainer cannot bind /lustre/scratch, which does not exist on the compute nodes.
    _case("edge-plasma-in-apptainer", ("last_words", "exception"), acceptable=("srun_exit", "G04")),
    # node74's forward and backward take twice as long as those of the other nodes, at equal
    # clocks; the others spend the difference in sync.
    _case("cumulus-fields-over-europe", ("K01", "K02", "F02"), acceptable=("E06",)),
    # The first ids of each rank are the same in every epoch: set_epoch is not called.
    _case("bacterial-genomes-masked", ("C06",), acceptable=("J04",)),
    # data_time is 3.2 to 3.9 s of 3.6 to 4.3 s; the workers are in state D on Lustre; the GPUs are idle.
    _case("echoes-from-ninety-radars", ("D01", "D07")),
    # Epochs take 41 s, then 50, 59, ... 299 s: something in "step+hooks" grows.
    _case("coarse-grained-peptides", ("E10",)),
    # GPU 2 has a PCIe link of generation 1 and 4 lanes under load: h2d takes 0.95 s instead of 0.03 s.
    _case("beryllium-walls-four-cards", ("I03",), acceptable=("D05",)),
    # NCCL uses a 10 Gbit/s Ethernet card (NCCL_IB_DISABLE=1), which is full: 90 % of the GPU
    # time is all-reduce.
    _case("dynamical-core-emulator", ("E06", "K08")),
    # The train and validation loss fall until epoch 8 and grow three-hundredfold after it
    # (constant lr 0.02).
    _case("cobalt-alloys-interatomic", ("J02",), acceptable=("J03",)),
    # Healthy: a spike of the loss and gradient at step 14000 that recovers, pauses for
    # evaluation, NaN over land in a variable that is filled, a slow first step.
    _case("days-seven-to-ten-ahead"),
    # Healthy: the third card (T1000) is for the monitors, the dice of a class that the fold
    # lacks is nan, warnings about voxels.
    _case("cilia-tomograms-at-the-lab"),
    # Healthy: GAN losses that wander while CRPS and FSS improve.
    _case("drizzle-at-one-kilometre"),
    # Healthy: downloads that are retried, overflows of the first two steps, a Lustre
    # connection that is restored, a slow first epoch, exit status 0.
    _case("eukaryote-promoters-thirty-two-ranks"),
    # Healthy: a noisy return that rises, simulator warnings, a NaN metric before there is an
    # X-point, one GPU that is reserved for the evaluation.
    _case("current-profiles-in-a-tokamak"),
)
