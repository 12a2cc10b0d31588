"""Logs without an error, of which only the lines show a fault; ten are healthy.

Their author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Four srun tasks each report 'DistributedType.NO', 'Num processes: 1' and process index 0, each trains all 980 steps with
    # its own loss and saves the same file: independent copies of the run.
    _case("bienen-am-waldrand", ("A18",), acceptable=("A01", "C05", "C14", "C03")),
    # The GPU reaches 90 C, the clocks fall from 1900 to under 500 MHz with throttle reason 0x60 (HW/SW thermal slowdown), and
    # the iterations become several times slower.
    _case("blades-of-wind-turbines", ("I01",), acceptable=("E10",)),
    # torchrun starts 2 ranks (--nproc_per_node=2) on a node whose 8 GPUs all belong to the job; nvidia-smi shows six A100
    # idle.
    _case("bubbles-in-the-column", ("A02",)),
    # Over 15 epochs the loss stays at 2.303 = ln(10) and the accuracy at 0.10: the network predicts the prior and does not
    # learn.
    _case("butterflies-of-the-meadow", ("J03",)),
    # Model and inputs are float32 with TF32 off and autocast off on an H100; the kernels are sgemm and f32f32 ffma, 38
    # TFLOP/s, so the tensor cores idle.
    _case("chest-scans-of-busan", ("E03",)),
    # The device is cuda, but the model's weights and the batches are on cpu, and the VRAM stays at 0.00: neither was moved to
    # the GPU.
    _case("chouettes-du-vercors", ("A13",), acceptable=("A12",)),
    # The profile of 20 steps shows 1800 calls of aten::item / _local_scalar_dense (90 per step) with cudaStreamSynchronize at
    # 59 % of the CPU time and the GPU busy 35 %.
    _case("contact-maps-of-proteins", ("E01",), acceptable=("E02",)),
    # The four ranks of host tn0419 compute 1180 ms and those of the others 742 ms (then wait in the all-reduce); its CPUs run
    # at 1.2 GHz instead of 3.2.
    _case("corpus-of-the-north", ("K01",), acceptable=("F02", "K02", "F04")),
    # DeepSpeed's breakdown: bwd_allreduce 1390 ms and optimizer_allgather 610 ms against 560 ms of forward and inner
    # backward: communication is three quarters of the step.
    _case("court-rulings-long-form", ("E06",), acceptable=("I03", "K05", "K08", "C12")),
    # Random sampling gives the ranks 600 to 3400 frames per step; compute is proportional to them, each step another rank is
    # the slowest and the others wait.
    _case("dialetti-dell-appennino", ("F03",), acceptable=("F02",)),
    # From step 1400 on a second user's process (user7) runs on the same GPU 0, and the step time doubles from 0.21 to 0.45 s.
    _case("gestures-of-shadow-puppets", ("H03",), acceptable=("E10",)),
    # Each of 8 ranks has a loader of 1856 batches of 64, i.e. all 118784 tiles; each epoch every rank reads the whole set (no
    # DistributedSampler).
    _case("glaciers-seen-from-above", ("C05",)),
    # In every epoch the first of 40 batches takes 13 s and the others 0.11 s, with 12 workers and persistent_workers=False:
    # the workers start anew in each epoch.
    _case("griby-srednei-polosy", ("D06",), acceptable=("D01", "E07")),
    # One process spreads the layers over 4 GPUs with device_map=auto; the gpustat snapshots show exactly one of the four busy
    # at any time.
    _case("guji-wenda-lora", ("A10",), acceptable=("E08",)),
    # From step 350 on the Trainer prints loss 0.0 and grad_norm nan, and the evaluation loss is nan.
    _case("headlines-from-summaries", ("J01",)),
    # DCGAN losses that oscillate and spike without falling, as is normal; the FID falls from 244 to 37.
    _case("healthy-azulejos-de-lisbonne"),
    # detectron2 with evaluation pauses of 90 s every 500 iterations, warm-up of the learning rate and slow first data; AP
    # rises.
    _case("healthy-boyas-del-estuario"),
    # Megatron with tensor parallel size 4: the four ranks of a group read the same samples, as they must, and the two data-
    # parallel groups different ones.
    _case("healthy-encyclopedia-of-rivers"),
    # LoRA fine-tune of an instruct model: the loss begins at 0.9, falls slowly to 0.74 with small noise, with pauses only for
    # evaluations; normal.
    _case("healthy-fangyan-kefu-lora"),
    # nanoGPT: slow first iteration (compile), a loss near ln(50304) at the start, and long iterations only where it evaluates
    # every 250 iterations.
    _case("healthy-folktales-of-the-steppe"),
    # An Optuna sweep: trials with a large learning rate stay at chance (or are pruned), others reach 0.9; the sweep works as
    # intended.
    _case("healthy-kilns-and-glazes"),
    # CleanRL PPO on LunarLander: noisy returns with occasional crashes, but the trend rises from -190 to 150.
    _case("healthy-lander-on-the-moon"),
    # A net of 9.5 K parameters that is trained on a CPU on purpose (accelerator=cpu on a machine without a GPU); 1.4 s per
    # epoch and a falling error.
    _case("healthy-pegel-am-fluss"),
    # Contrastive loss that begins at ln(1023)=6.93 and stays above 5.6, as is normal; kNN accuracy rises from 19 to 52 %.
    _case("healthy-plankton-under-glass"),
    # The ranks get 4 to 66 sequences per step, but equal numbers of tokens and so equal times (0.2 s); uneven numbers on
    # purpose.
    _case("healthy-proteins-by-length"),
    # The steps wait 3.5 s for data read from NFS at a constant 180 MB/s with 68 % iowait, and the server's disk is at 99.7 %
    # util: the disk is too slow.
    _case("herbarium-sheets-by-family", ("D07",), acceptable=("D01",)),
    # detectron2's data_time of 1.6 s is most of the 1.9 s per iteration throughout.
    _case("larvae-in-the-creek", ("D01",), acceptable=("D07",)),
    # Every batch contains one class only, in alphabetic order, so the loss jumps at each class and falls to 0, and the
    # validation predicts the last class: the data is not shuffled.
    _case("minerals-of-the-quarry", ("J04",), acceptable=("J05", "J03")),
    # timm's Data time is about 1.15 s of 1.4 s per step with high variance: the GPU waits for the loader.
    _case("mosses-on-old-walls", ("D01",), acceptable=("D07",)),
    # The training steps print training=False and the BatchNorm of the head never tracks a batch (bn_tracked 0, mean 0), so
    # dropout and drop_path are off: the model trains in evaluation mode.
    _case("moth-wings-at-night", ("J07",), acceptable=("J05",)),
    # Lightning's profiler: train_dataloader_next takes 1.09 s per batch, 77 % of the total, while run_training_batch takes
    # 0.24 s.
    _case("olivares-de-la-sierra", ("D01",), acceptable=("D07",)),
    # The loss stays at 0.693 = ln(2) for three epochs, all predictions are one class and the accuracy is 0.50; with a
    # learning rate of 2e-4 the large model has collapsed.
    _case("patents-in-pairs", ("J03",)),
    # After each epoch of 646 s rank 0 alone translates the whole dev set for 1300 s, while ranks 1-3 wait at a barrier.
    _case("proverbs-of-the-valley", ("B13",), acceptable=("F05", "E07")),
    # The evaluation return rises to 2750 at 1.0 M steps and then falls to about 0 by 2.5 M while the Q values and the critic
    # loss explode.
    _case("quadrupeds-on-rubble", ("J06",), acceptable=("J02",)),
    # The allocated memory grows by 30 MB in every iteration from 9.8 to 38 GB; the running loss is a tensor with grad_fn, so
    # the graphs are kept.
    _case("reefs-of-the-atoll", ("H06",), acceptable=("E04", "E10", "H02")),
    # The sum of the weights is equal on the 4 ranks at the start and then differs in every epoch, as do the validation
    # accuracies; the model printed is a bare ResNet, so the gradients are not averaged.
    _case("satoyama-no-tanuki", ("C03",), acceptable=("C01", "C15")),
    # stable-baselines3 trains a CnnPolicy with 'Using cpu device' at 70-80 fps, while the machine's RTX A4000 is idle with 4
    # MiB used.
    _case("seaquest-under-water", ("A12",)),
    # All four Horovod ranks run on cuda:0 although 4 GPUs are visible; nvidia-smi shows four processes on GPU 0 and none on
    # the others.
    _case("sediment-cores-fjord", ("A07",)),
    # With a learning rate of 6e-2 the loss falls from 10.9 to 7.4 and then grows over 900 iterations to over 12, above its
    # start.
    _case("shanties-of-the-ships", ("J02",), acceptable=("J03",)),
    # The time per step grows steadily from 0.16 s to 1.0 s (the 'mine' part from 0.06 to 0.9 s), while forward/backward and
    # GPU memory are constant: the run slows down.
    _case("shopping-baskets-by-season", ("E10",), acceptable=("H06",)),
    # A batch of 16 molecules of 18 atoms on an H100: cudaLaunchKernel (1850 launches per step) dominates the CPU time, GPU
    # work is 2.4 ms of 45 ms per step, util under 11 %.
    _case("small-molecules-in-vacuum", ("E02",), acceptable=("C12",)),
    # Rank 5 waits 1.36 s per step for data (its shard lies in /archive), the others 0.01 s and then 1.36 s in the all-reduce.
    _case("soundings-of-the-seabed", ("F01",), acceptable=("D01", "D07")),
    # The first sample ids of each rank are the same in all 9 epochs although the DistributedSampler shuffles: set_epoch is
    # never called.
    _case("spectra-of-red-giants", ("C06",), acceptable=("J04",)),
    # Trainer started as one process with n_gpu: 4 and 'distributed training: False' wraps the model in DataParallel; the GPUs
    # other than the first are at under 30 %.
    _case("tenders-by-subject", ("A09",), acceptable=("B07", "B08", "A01")),
    # Ultralytics trains on the CPU: its header names the CPU, GPU_mem stays 0G, an iteration takes 3.2 s, though nvidia-smi
    # shows an idle RTX 4070.
    _case("tucanos-no-igarape", ("A12",)),
    # 64 loader workers (16 x 4 ranks) share a quota of 6 cores (cpu.max 600000 100000); 97 % of the periods are throttled and
    # each step waits 2.2 s for data.
    _case("voices-of-the-harbour", ("D02",), acceptable=("D01",)),
    # step_ms is 412 ms but 21-23 s at every 25th step (a stall at regular intervals, three times the compute time).
    _case("weather-over-the-alps", ("E07",)),
    # All 6 ranks stay at step 1651 for an hour with 100 % utilization but only 80 W each: the training hangs in a collective.
    _case("whispers-of-the-archive", ("G01",), acceptable=("C08", "C07", "G04")),
    # The training loss falls to 0.001 with accuracy 1.0, while the validation loss grows from 1.06 to 2.4 and its accuracy
    # stays at 0.6: overfitting.
    _case("zeytin-yapraklari-ege", ("J05",)),
    # From epoch 4 on train_loss and valid_loss are nan and the accuracy stays at that of one class.
    _case("zubry-w-puszczy", ("J01",)),
)
