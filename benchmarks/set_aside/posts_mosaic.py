"""Logs without an error, as people show them to a colleague, some beside the output of another tool.

Their author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # The loader cannot keep up: Data is about three quarters of Time in every step with -j 4, and GPU utilization sampled
    # each second is mostly 0%.
    _case("mushrooms-of-the-taiga", ("D01",), acceptable=("D07",)),
    # data_time is 85% of time in each step, and nfsiostat shows 9 MB/s with 200 ms per read from the NAS: the storage is too
    # slow for the loader.
    _case("badgers-at-the-camera-traps", ("D07", "D01")),
    # The GPU needs 0.23 s of a step of 3.9 s; iostat shows the rotating disk sdb at 100% utilization with 92 ms per read.
    _case("leaf-veins-of-the-herbarium", ("D07", "D01")),
    # num_workers: 0, and each step waits 2.6 s for data and computes 0.42 s; the GPUs are idle most of the time while each
    # rank's main process uses one core of a 94% idle machine.
    _case("clinic-voices-in-busan", ("D01",)),
    # All 12 loader workers and the main process are bound to core 17 (--cpus-per-task=1, PSR 17 for all, 8% each), so each
    # step waits 5.8 s of 6.1 s for data.
    _case("otters-in-the-estuary", ("D03",), acceptable=("D01", "D02")),
    # Each epoch's and each validation's first batch comes after about 21 s and the other 46 take 4 s: the 16 workers are
    # started anew for every epoch (no persistent_workers).
    _case("cherry-blossoms-of-nara", ("D06",), acceptable=("D01", "E07")),
    # 48 workers run under a CPU limit of 6 cores: nr_throttled is 99% of nr_periods, and data_s is 87% of step_s.
    _case("weld-seams-at-the-shipyard", ("D02",), acceptable=("D01", "D03")),
    # torchrun set OMP_NUM_THREADS=1 and the CPU front-end in the main process uses one thread of 64 cores: it takes 2.9 of
    # 3.3 s of a step.
    _case("whale-songs-off-the-azores", ("D04",), acceptable=("D01",)),
    # TensorFlow finds no CUDA driver and trains on the CPU: 1.8 s per step, python at 2750% CPU.
    _case("loaves-of-the-village-bakery", ("A12",)),
    # Lightning says 'GPU available: True (cuda), used: False'; nvidia-smi shows the GPU at 0% in P8 with only Xorg, and a
    # step takes 5.4 s.
    _case("tremors-of-the-volcano", ("A12",)),
    # Stable-Baselines3 prints 'Using cpu device' for a CNN policy at 14 fps; torch is 2.1.1+cpu and the GPU has 0% load.
    _case("cranes-of-the-container-port", ("A12",)),
    # Accelerate says DistributedType.NO with one process; the script was started with plain python, and 7 of 8 A100s are
    # idle.
    _case("clauses-of-the-land-registry", ("A01",), acceptable=("A02",)),
    # torchrun --nproc_per_node=4 starts four ranks on a machine with eight H100s; GPUs 4-7 are idle.
    _case("orchids-of-the-glasshouse", ("A02",)),
    # devices=-1 finds two devices as CUDA_VISIBLE_DEVICES=0,1 is set, while nvidia-smi shows four GPUs of which two are idle.
    _case("livers-of-the-radiology-ward", ("A03",), acceptable=("A02",)),
    # All four ranks use cuda:0: nvidia-smi lists the four PIDs on GPU 0 while GPUs 1-3 are idle.
    _case("zeolites-of-the-sieve-library", ("A07",), acceptable=("C16", "A02")),
    # srun starts four tasks, and each says 'proceso 0 de 1' and goes through all 37686 batches (2.41 M / 64): four
    # independent runs, not one distributed run.
    _case("quechua-texts-of-the-highlands", ("A18",), acceptable=("A01", "C03", "C05")),
    # The Trainer says 'Training with DataParallel', and the gather warning appears; one process holds all four GPUs, GPU 0 is
    # fuller and at 71%, the others at about 34%.
    _case("place-names-of-old-maps", ("A09", "B08"), acceptable=("B07", "A01")),
    # One process drives four GPUs ('Let's use 4 GPUs!'): 32 tiles in 1.41 s are no faster than 8 tiles in 0.34 s on one GPU;
    # GPU 0 has 22.9 GB and 70%, the others 12.4 GB and about 20%.
    _case("clouds-over-the-trade-winds", ("B08",), acceptable=("B07", "A01")),
    # After each 25-minute epoch on eight GPUs, rank 0 alone decodes the dev set for 41 minutes; meanwhile the others wait
    # (100% at 92 W).
    _case("sorbian-hymns-of-lusatia", ("B13",), acceptable=("F05", "E07")),
    # The ranks' weight norms and validation results differ after each epoch although they began equal, and the profile has no
    # all-reduce: the model is not wrapped in DDP (or DDP is bypassed).
    _case("corals-of-the-atoll", ("C03", "C01"), acceptable=("A18", "C02")),
    # With 4 ranks, each still has 1536 batches of 64 = all 98304 images per epoch, in total 393216 (four times the set): no
    # DistributedSampler.
    _case("frescoes-of-the-monastery", ("C05",)),
    # Ranks 0-2 have 1251 batches and stand in batch 1250 (printed as 1249/1251 last), rank 3 has only 1249 and waits in the
    # barrier at the end of the epoch; all GPUs show 100% for 20 minutes without progress.
    _case("wake-words-in-the-tram", ("C07",), acceptable=("G01", "C08", "G04")),
    # torchrun on a118 waits at the rendezvous for 26 minutes with --nnodes=2; on a119 no torchrun runs (no srun in the sbatch
    # script), and no rank has been started.
    _case("soil-maps-of-the-steppe", ("G06",), acceptable=("G03",)),
    # The profile of 20 steps has 15400 calls of aten::item (770 per step), and cudaStreamSynchronize takes 65% of the CPU
    # time, while CUDA is busy for 0.41 of 1.89 s.
    _case("card-payments-at-the-kiosks", ("E01",), acceptable=("E02",)),
    # precision=32-true on an A100 and Lightning's note on Tensor Cores; the GPU is at 100% with about 15 TFLOP/s of 312.
    _case("sagas-of-the-fjords", ("E03",)),
    # Batch 4 with a tiny GIN on an H100: kernels of 4 us take 0.2 of 2.3 s, the CPU launches 494 of them per step, GPU at 9%;
    # loading takes 0.06 s.
    _case("molecules-of-the-tox-panel", ("E02",), acceptable=("C12",)),
    # A checkpoint is saved every 50 iterations (120 s of training) and takes 232 s each time: two thirds of the time.
    _case("river-chronicles-at-sea", ("E07",)),
    # The time of an epoch grows steadily from 41 s to 166 s with constant memory, clocks and temperature: something in the
    # loop accumulates (history, graph, hooks, ...).
    _case("floods-of-the-loire", ("E10",)),
    # Rank 2 needs 1.3 s per step to get its data (its shard lies on another kind of disk, sdc), the other ranks 0.013 s, and
    # they wait for it in the synchronization.
    _case("tea-terraces-of-fujian", ("F01",), acceptable=("D07",)),
    # Part 2 has four to five times as many edges and train nodes as the others; rank 2 computes 8.9 s per epoch and the
    # others 2.2 s and wait.
    _case("citations-of-the-physics-archive", ("F03",), acceptable=("F02",)),
    # The all-reduce takes 19.6 of 21.9 s of a step; NCCL uses sockets over enp3s0, which is a 1 Gbit/s link at 98%.
    _case("proverbs-of-the-sahel", ("E06", "K08"), acceptable=("K07",)),
    # The run's resident memory grows by 5.8 GB each 1000 steps in every worker; after 70 minutes the machine has about 2 GB
    # free and swaps.
    _case("glaciers-from-the-satellite", ("H06",), acceptable=("H05",)),
    # Allocated GPU memory grows by the same 0.19 GiB in every 200 steps, from 2.0 to 9.9 of 10.75 GiB: something (e.g. losses
    # with their graphs) is kept.
    _case("sleepers-of-the-eeg-lab", ("H06",), acceptable=("E04",)),
    # A step takes 98 ms at first and 226 ms since 09:17, when another user's process (doktor2, 41877) came onto the same GPU
    # 1.
    _case("bison-of-the-primeval-forest", ("H03",)),
    # After the first minutes the GPU is at 90-91 C, its clock falls from 1890 to 1040 MHz, both thermal slowdowns are active,
    # and batch_cost rises from 0.38 to 0.69 s.
    _case("streets-of-the-old-bazaar", ("I01",), acceptable=("E10",)),
    # The loss stays at ln 2 = 0.693 and the AUC at 0.50 for 14 epochs: the learning rate of 1e-07 is far too small.
    _case("trains-of-the-trans-ural-line", ("J03",)),
    # The loss falls until update 1500 and then rises above its initial value, with gnorm growing from 1.2 to 260 while lr
    # climbs toward 5e-3 without clipping.
    _case("ballads-of-the-border-hills", ("J02",), acceptable=("J03",)),
    # The files come sorted by class (alder first, pine last): the loss jumps every 25 steps when a new class begins and falls
    # to 0.03, and on validation the model says 'pine' for everything.
    _case("barks-of-the-arboretum", ("J04",), acceptable=("J05", "J03")),
    # Overfitting on 1120 images: train_loss falls to 0.002 while valid_loss has its minimum near epoch 6 and then doubles,
    # with accuracy standing at 0.73.
    _case("moths-at-the-light-trap", ("J05",)),
    # The return rises to about 350 until step 650000 and then falls to -150, while the mean Q and the critic's loss grow
    # without bound.
    _case("coffee-beans-of-the-cooperative", ("J06",), acceptable=("J02",)),
    # Healthy: only the first step is slow (compilation and first data), then 0.34 s with 6 ms data; training loss above
    # validation loss is due to mixup/dropout.
    _case("healthy-tulips-of-the-polder"),
    # Healthy: one loss spike at iteration 1780 that recovers within 60 iterations, evaluation every 1000 iterations only, 52%
    # MFU.
    _case("healthy-folktales-by-the-fire"),
    # Healthy: a diffusion model's MSE stays near 0.023, as usual, while the FID falls steadily; GPUs at 98%.
    _case("healthy-ceramics-of-the-kiln"),
    # Healthy: the Atari return is noisy and dips once between 4.4M and 5.4M steps, but recovers and rises on; steady SPS.
    _case("healthy-arcade-in-the-cellar"),
    # Healthy: torchtitan on eight H100s with all GPUs at 98-100%, steady wps; the OMP warning, the high memory and up to 81 C
    # are harmless.
    _case("healthy-encyclopedias-of-the-north"),
    # Healthy: six overflows at the start and one later while fp16 finds its loss scale (usual); then constant speed and a
    # falling loss.
    _case("healthy-letters-of-the-lighthouse"),
    # Healthy: the maximum memory rises in the first 1500 steps as longer batches come and then stands at 20.9 GB; the batch
    # size varies because of dynamic batching.
    _case("healthy-ferries-on-the-strait"),
    # Healthy: StyleGAN2-ADA with constant sec/kimg; the evaluation comes only every 50 ticks, and GAN losses that do not fall
    # are normal as the FID drops from 331 to 49.
    _case("healthy-tapestries-of-the-weavers"),
    # Healthy: the loss jumps up at epochs 10 and 30 only because the learning rate restarts (SGDR), and falls lower in each
    # cycle; label smoothing keeps the loss from going to 0.
    _case("healthy-vines-of-the-greenhouse"),
    # Healthy: the first epoch takes twice as long (start-up), the rest 41 s; the validation loss lies below the training loss
    # because of dropout and augmentation, and the learning rate is reduced on plateaus.
    _case("healthy-shells-on-the-beach"),
)
