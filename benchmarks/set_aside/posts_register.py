"""Logs as people paste them of trainings that run on without an error, but go wrong, waste GPUs or are slow; all set aside.

Their author knew only the ids and titles of the rules. Each comment names the cause.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # Lightning sees a GPU and trains on the CPU: 'GPU available: True (cuda), used: False' plus the warning; 5.4 s/it for a
    # ResNet-50 with batch 64.
    _case("larch-bark-classes", ("A12", "pl_gpu_unused")),
    # torch-2.6.0+cpu: the build supports only the CPU; GPU_mem 0G, 8.7 s/it, about 23 minutes per epoch for 2496 images.
    _case("urchins-on-the-reef", ("A12", "cpu_build")),
    # 'Dispositivo: cpu' and 'mem GPU 0 MiB' on a node with 2 assigned GPUs; 11.3 s per step.
    _case("voces-de-la-sierra", ("A12",)),
    # HF Trainer started without a launcher on 4 GPUs: n_gpu: 4, distributed training: False, 'Training with DataParallel so
    # batch size has been adjusted to: 32', scalar gather warning.
    _case("parish-registers-ner", ("A09", "hf_n_gpu"), acceptable=("A01", "B08", "dp_gather_scalar")),
    # Eight GPUs are visible (CUDA_VISIBLE_DEVICES: [0,...,7]) but only 2 processes start (MEMBER 1/2, 2/2).
    _case("gletscherrand-am-fjord", ("A02",), acceptable=("A16",)),
    # The node lists 8 A100, the script prints 'Not using distributed mode', world_size=1: started with python instead of a
    # launcher; 8413 iterations of 128 on one GPU.
    _case("herbarium-sheets-small", ("A01",), acceptable=("A02",)),
    # All four ranks print device=cuda:0 with the same UUID though 4 GPUs exist; NVML shows the memory and load on cuda:0
    # only.
    _case("co-purchase-graph", ("A07",), acceptable=("C16",)),
    # Four srun tasks each say 'Distributed environment: NO, Num processes: 1, Process index: 0' and each runs the full 11016
    # steps of batch 16: four independent trainings.
    _case("kitchen-recipes-summaries", ("A18",), acceptable=("A01", "C05", "A02")),
    # Each of four ranks has RandomSampler with len(loader)=1000 at batch 96 of 96000 samples: every rank reads the whole data
    # set in each epoch.
    _case("ceramic-tiles-defects", ("C05",), acceptable=("omp1", "D04")),
    # The first sample ids of each rank are identical in all 12 epochs despite DistributedSampler(shuffle=True): set_epoch is
    # not called.
    _case("chants-de-baleines", ("C06",), acceptable=("J04",)),
    # The labels of each batch are all one class, running 0..11 through the epoch; the loss falls to 0 within a class and
    # jumps at each new one, validation stays at 1/12: not shuffled.
    _case("peppers-by-variety", ("J04",), acceptable=("J05",)),
    # ImageNet example: of 1.6 s per step about 1.2 s is Data; the GPU computes for 0.32 s.
    _case("thousand-birds-resnet", ("D01",), acceptable=("D07", "D02")),
    # mmdetection: time 1.31 of which data_time 1.02 in every line.
    _case("handcarts-of-the-bazaar", ("D01",), acceptable=("D02", "D07", "D03")),
    # Lightning warns about few workers; the profiler gives 87% of the epochs to train_dataloader_next and 12% to
    # run_training_batch.
    _case("mammograms-second-reading", ("D01", "pl_workers")),
    # In every epoch the first batch takes 9.6 s and the other 32 together 1.3 s; 16 workers with persistent_workers=False
    # start anew each epoch.
    _case("pegel-am-oberlauf", ("D06",), acceptable=("D01",)),
    # 32 workers on 4 CPU cores (warning of the DataLoader, load average 34); the GPU waits 1.5 s per step for 0.19 s of work.
    _case("mosaics-of-the-villa", ("D02", "too_many_workers"), acceptable=("D01",)),
    # torchrun set OMP_NUM_THREADS to 1 (get_num_threads()=1 of 96 CPUs): the CPU features take 0.93 of 1.1 s per step at 100%
    # of one core.
    _case("far-field-commands", ("D04", "omp1"), acceptable=("D01",)),
    # The profile of 40 steps has 2960 aten::item (74 per step) and 1.28 of 2.9 s in cudaStreamSynchronize, CUDA time only 1.1
    # s, utilization 38%.
    _case("chair-parts-in-points", ("E01",), acceptable=("E02",)),
    # precision=32-true on an H100, both Lightning's tensor-core hint and inductor's TensorFloat32 warning; 43 TFLOP/s.
    _case("enzymes-masked-language", ("E03",)),
    # CUDA_LAUNCH_BLOCKING=1 on the command line and the anomaly-detection warning: debug switches left on in a full training.
    _case("cloud-volumes-over-the-tropics", ("E05", "anomaly_mode")),
    # bwd_allreduce takes 1.9 of 2.7 s per step; NCCL uses NET/Socket over ens3 between the two nodes as libibverbs is
    # missing.
    _case("statutes-and-gazettes", ("E06",), acceptable=("K08", "I12", "C12")),
    # Every 25th step takes 96 s instead of 7.6 s, with a checkpoint written; a third of the time is lost at regular
    # intervals.
    _case("folk-songs-gpt", ("E07",)),
    # The printed device map spreads the 40 layers over GPUs 0-3 in one process; dmon shows only one of the four busy at a
    # time.
    _case("maritime-law-questions", ("A10", "E08")),
    # The rate falls steadily from about 400 to 40 steps/s while env and optimizer times and the GPU memory stay constant and
    # 'diğer' (other) grows.
    _case("depo-robotu-dqn", ("E10",), acceptable=("H06", "E02")),
    # Only rank 5 has data 1.49 s (its shards lie on /nfs), the other ranks 0.006 s and wait for it in backward.
    _case("harvest-tiles-from-orbit", ("F01",), acceptable=("D01", "D07", "F02")),
    # GPU 3 reaches 91 C, SW thermal slowdown is Active, its clock falls from 1.7 GHz to 0.77 GHz and its rank computes twice
    # as long.
    _case("greenhouse-tomatoes-masks", ("I01", "thermal_slowdown"), acceptable=("F02",)),
    # All four ranks of hlm-n03 compute 0.93 s, those of the other hosts 0.60 s and then wait in the all-reduce; equal GPUs
    # and shapes.
    _case("monsoon-emulator", ("K01",), acceptable=("F02", "K02")),
    # DDP warns that find_unused_parameters=True found nothing: an extra traversal of the graph in each iteration.
    _case("porcelain-marks-detector", ("C09", "fup_useless")),
    # The ranks start with equal parameter checksums which then drift apart each epoch, with differing gradient norms; the
    # printed class is the bare model, not DDP: gradients are not averaged.
    _case("small-molecules-energies", ("C03",), acceptable=("C01", "A18", "C02")),
    # strict=False hides that all keys of the checkpoint carry 'module.': the missing and unexpected keys are printed, and the
    # loss starts at ln 5 = 1.61 with kappa near 0 although the checkpoint had 0.847.
    _case("fundus-grades-clinic-b", ("C13", "not_loaded", "module_prefix"), acceptable=("state_dict_names",)),
    # At start cuda:1 has only 26 of 47 GiB free, nvidia-smi lists a foreign python (PID 38127, 21 GiB) on GPU 1 beside the
    # run's own process, and rank 1 computes twice as long.
    _case("radio-plays-transducer", ("H03",), acceptable=("F02", "H04")),
    # Allocated memory grows by 6 MiB with each iteration, from 11 to 66 GiB of 79, with constant batch.
    _case("swarm-optical-flow", ("H06",), acceptable=("E04",)),
    # The loss is nan from epoch 3 on and the loss scale is halved in every step down to nothing: no step is taken any more
    # and the validation stands still.
    _case("rins-em-tomografias", ("J01", "nan_loss"), acceptable=("loss_scale",)),
    # From step 170 on loss 0.0 with grad_norm nan, and eval_loss nan: the filter of the Trainer shows 0.0 for NaN losses.
    _case("proverbs-instruction-tuning", ("J01", "nan_loss"), acceptable=("J02",)),
    # The loss falls to about 3.0 until iteration 1180 and then grows to 6.8, in training as in validation.
    _case("saga-tales-gpt", ("J02",)),
    # Three classes: the loss stays at ln 3 = 1.099 and the accuracy at 0.35; torch.utils.checkpoint warns that no input
    # requires grad and the gradients will be None, so that the adapters inside do not train.
    _case("entailment-for-swahili", ("J03",)),
    # The MSE broadcasts [256,1] against [256] (warning); the loss stays at the variance 1.0, r2 about 0, predictions are
    # constant.
    _case("house-prices-in-the-delta", ("target_size", "J03")),
    # The training accuracy rises to 98% while validation loss 2.7742 (ln 16 = 2.773) and accuracy 6.31% are the same to the
    # last digit in each epoch: the evaluated weights or predictions do not follow the training.
    _case("tea-leaf-sorting", ("J05",)),
    # ep_rew_mean rises to about 240 by iteration 17 and then falls to -120, with approx_kl 0.1, clip_fraction 0.46 and
    # collapsing entropy.
    _case("ferry-docking-ppo", ("J06",)),
    # All 436 modules are in eval mode when the fit starts (summary and Lightning's warning): dropout and BatchNorm statistics
    # are frozen in training.
    _case("lichens-under-the-lens", ("J07", "all_in_eval")),
    # OMP_NUM_THREADS warning and a slow first iteration, but data time 0.6 ms and constant 840 img/s per GPU afterwards.
    _case("healthy-places-at-night"),
    # fp16 overflows at the start and once later are the normal search for the loss scale; loss falls, speed constant.
    _case("healthy-love-letters-translation"),
    # The diffusion loss is flat and noisy at 0.02 as always; FID falls from 21.8 to 10.2.
    _case("healthy-faces-of-statues-ddpm"),
    # Returns begin at -190 and dip once around episode 480, then go on rising to 190; noisy loss is normal for DQN.
    _case("healthy-moon-landing-dqn"),
    # The first step is slow as it compiles (tps 87), a checkpoint costs 14 s every 500 steps (2%); else constant 36% MFU.
    _case("healthy-river-stories-8b"),
    # New classifier head, tokenizers fork warning and lr going to 0 are normal; accuracy 0.92.
    _case("healthy-letters-to-the-editor"),
    # Only the first epoch waits for data (it fills the cache); all later ones have 3 ms.
    _case("healthy-insekten-im-auwald"),
    # The ranks differ by a few percent in loss, time and tokens, as batches do; exposed communication is 6%.
    _case("healthy-dialects-of-the-valley"),
    # All eight H100 run at their 700 W limit with 1.65-1.73 GHz and 70 C, equally, at 431 TFLOP/s: normal full load.
    _case("healthy-encyclopedias-moe"),
    # A negative log likelihood of a continuous density may be negative and keeps falling, in validation too.
    _case("healthy-showers-in-the-calorimeter"),
)
