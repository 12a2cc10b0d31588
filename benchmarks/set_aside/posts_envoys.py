"""Logs that people paste into forums and issues, a third of them without a traceback.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # QLoRA of a 7B model on a Colab T4: the upcast of the logits needs 2.32 GiB and the card has 1.55 GiB left. The one
    # process named in the message is the notebook itself.
    _case("apples-on-a-free-notebook", ("oom", "H02")),
    # Rank 5 of 8 gets a batch of the longest sequences and runs out of memory in the attention; the other ranks are only
    # ended by torchrun.
    _case("coastal-radar-on-eight-a100", ("oom", "H02"), acceptable=("child_failed", "elastic_exit", "G04", "F03")),
    # The labels run from 1 to 102 and the last layer has 102 outputs: label 102 trips the assertion t < n_classes in the loss
    # kernel.
    _case("flowers-in-a-course-notebook", ("illegal",), acceptable=("exception",)),
    # On rank 2 an index is outside the embedding table (indexSelectLargeIndex: srcIndex < srcSelectDimSize); its watchdog
    # aborts it and torchrun ends the others.
    _case(
        "hungarian-poems-gpt2", ("illegal",), acceptable=("signal_crash", "child_failed", "cpp_terminate", "G04", "exception")
    ),
    # The new last layer was put in after model.to(device): its weights are on the CPU while the features are on the GPU.
    _case("beetles-resnet-beginner", ("two_devices", "A13")),
    # A DataLoader worker of rank 1 is killed (signal Killed) in a pod whose ranks each cache 412 CT volumes: the memory of
    # the container is used up.
    _case("ct-lungs-in-a-pod", ("worker_killed", "H05"), acceptable=("child_failed", "G04", "exception", "elastic_exit")),
    # Workers die with a bus error in a container that was started without --shm-size: /dev/shm (64 MB) is full.
    _case("drone-frames-in-docker", ("worker_bus", "D08")),
    # The checkpoint was saved from a DDP or DataParallel wrapper: every name begins with module., and the plain model lacks
    # the prefix.
    _case("koi-ponds-segmentation", ("module_prefix", "C13"), acceptable=("state_dict_names",)),
    # The launcher of torch 2.0 passes --local-rank; the script of the older repository requires --local_rank and stops in
    # argparse.
    _case(
        "brick-walls-with-an-old-readme",
        ("local_rank_dash", "A17"),
        acceptable=("argparse_missing", "argparse_unknown", "child_failed", "launch_deprecated", "elastic_exit"),
    ),
    # On rank 2 a batch had no dynamic clip, so the parameters of the second head (233-236) got no gradient and DDP refuses
    # the next iteration.
    _case("gestures-with-two-heads", ("unused_params", "unused_idx", "C09"), acceptable=("child_failed", "G04")),
    # Port 29500 is already taken, by the colleague whose torchrun uses the other two GPUs: the store of the rendezvous cannot
    # listen.
    _case("dictionary-entries-at-noon", ("addr_in_use", "G03"), acceptable=("exception",)),
    # torch 2.6 loads with weights_only=True by default, and the old checkpoint contains a NumPy scalar (its best accuracy).
    _case("mushrooms-checkpoint-from-2022", ("weights_only",), acceptable=("exception",)),
    # The checkpoint has 2000 classes, the new model 64: the last layer does not fit.
    _case("isolated-signs-fine-tune", ("shape_differs",)),
    # fc1 expects 64*28*28 = 50176 features, the images are 256 pixels wide and give 64*32*32 = 65536.
    _case("lego-bricks-first-cnn", ("shapes",)),
    # One image of rank 3 is gray: Normalize with three means does not fit its single channel, and the exception of the
    # DataLoader worker ends the run.
    _case(
        "labels-of-jam-jars",
        ("exception",),
        acceptable=("shapes", "child_failed", "G04", "background_workers", "elastic_exit", "unequal_samples"),
    ),
    # Resize(256) keeps the aspect ratio, so the images of a batch have different widths and cannot be stacked.
    _case("knitted-sweaters-retrieval", ("unequal_samples",), acceptable=("exception",)),
    # On Windows the workers import the script again, and its training loop stands at the top level without the guard if
    # __name__ == __main__.
    _case("ancient-coins-on-windows", ("spawn_main_guard",), acceptable=("worker_killed",)),
    # Rank 0 fails while it writes the checkpoint of epoch 10; df shows that / is full (100%, 20K left).
    _case("estuary-birds-overnight", ("disk_full", "checkpoint_write"), acceptable=("child_failed", "G04")),
    # The wheel for CUDA 12.1 has no kernels for sm_120 (RTX 50): no kernel image is available.
    _case("jazz-solos-on-a-new-card", ("arch_unsupported", "A12")),
    # The model was loaded in half precision and runs without autocast: a float32 activation meets a float16 layer.
    _case("mountain-huts-captions", ("two_dtypes",), acceptable=("exception",)),
    # The optimizer of the discriminator steps (in place) between the forward pass of the generator loss and its backward
    # pass: a weight is at version 2 instead of 1.
    _case("icons-to-sketches-gan", ("inplace_modified",), acceptable=("anomaly_mode", "E05")),
    # Rank 6 of 8 does not find one tile (FileNotFoundError); srun then terminates the other tasks.
    _case(
        "barley-fields-multispectral",
        ("exception",),
        acceptable=("srun_exit", "G04", "slurm_cancelled", "background_workers", "file_system", "elastic_exit"),
    ),
    # The ranks own 490, 489, 489 and 487 batches: rank 3 is done first and gathers in the validation, the others wait in the
    # all-reduce of the next step until the timeout.
    _case(
        "captions-for-harbour-webcams",
        ("C07",),
        acceptable=("nccl_watchdog", "G01", "C08", "coll_mismatch", "F03", "child_failed", "G04", "signal_crash"),
    ),
    # The GPU of rank 1 fell off the bus (Xid 79); nvidia-smi no longer gets a handle for it.
    _case(
        "lynx-tracks-on-spot-machines",
        ("gpu_lost", "xid", "I05", "I04"),
        acceptable=("child_failed", "signal_crash", "exception", "G04"),
    ),
    # transformers 4.51 no longer knows evaluation_strategy (it is eval_strategy now).
    _case("herbs-with-an-older-tutorial", ("argument_unknown",), acceptable=("exception", "version_required")),
    # torchrun starts eight ranks, and the job has four GPUs: local ranks 4 to 7 ask for devices that do not exist.
    _case("hail-storms-on-half-a-node", ("invalid_ordinal",), acceptable=("A03", "A02", "child_failed", "G04", "srun_exit")),
    # From step 130 the gradient norm is nan and the printed loss is 0.0 (fp16 on a card without bf16).
    _case("legal-briefs-qwen-lora", ("J01", "nan_loss")),
    # The loss stays at ln(10) = 2.303 and the accuracy at 10 % for 25 epochs: the model learns nothing (Adam with a rate of
    # 0.01).
    _case("aerial-cars-first-transformer", ("J03",)),
    # Overfitting: the training loss falls to 0.01 while the validation loss rises from epoch 4 on and its accuracy stays near
    # 0.6.
    _case("leaf-diseases-val-acc", ("J05",)),
    # ep_rew_mean climbs to about 2950 after a million steps and then falls to 200 while the critic loss grows.
    _case("hopper-in-the-evening", ("J06",), acceptable=("J02",)),
    # The step reached the memory that the job asked for (96G): oom_kill of slurmstepd in epoch 2.
    _case("gene-panels-on-the-cluster", ("slurm_oom", "H05"), acceptable=("memory_limit", "srun_killed", "H06", "killed")),
    # Slurm ends the job at its limit of one day, after 46 of 90 epochs.
    _case("kanji-from-scratch-on-slurm", ("slurm_time_limit", "time_limit"), acceptable=("slurm_cancelled",)),
    # NCCL is set up over P2P, then nothing follows; 47 minutes later both GPUs are at 100 % and 90 W with only the model in
    # memory: the first collective never ends.
    _case("mathematics-problems-two-4090", ("G02", "G01"), acceptable=("I03", "acc_p2p")),
    # Of about 1.8 s per step 1.6 s are waiting for data; the GPU is idle most of the time.
    _case("bakery-shelves-imagefolder", ("D01",), acceptable=("D02", "D07", "D03", "D06")),
    # torch-2.5.1+cpu: the wheel supports only the CPU, GPU_mem is 0G and a step takes 12 s while the RTX 3060 is idle.
    _case("fishing-boats-on-a-laptop", ("A12", "cpu_build")),
    # GPU 2 has 93 C, the thermal slowdown is active and its clock at 705 MHz; the step time of the whole run grew from 0.61
    # to 1.43 s.
    _case("lidar-sweeps-four-2080ti", ("I01", "thermal_slowdown"), acceptable=("E10", "F02")),
    # Ranks 1 and 2 (70413, 70414) have a second context of 514 MiB on GPU 0.
    _case("ceramics-shards-three-ranks", ("H01",), acceptable=("A07",)),
    # The RAM that the process uses grows by about 1.1 GB per 100 iterations up to the 62 GB of the machine, then it is
    # killed.
    _case("magazine-covers-memory", ("H06", "H05", "killed")),
    # 69 % of the GPU time of rank 0 are all-reduce kernels (149 ms each, two nodes of two cards): communication takes most of
    # the step.
    _case("grain-silos-profile", ("E06",), acceptable=("K05", "K08", "I03", "C12")),
    # Rank 5 waits 1.2 s for its data in every step (it reads from /mnt/archive), the others 0.01 s; they wait for it in the
    # backward pass.
    _case("goats-on-eight-ranks", ("F01",), acceptable=("D01", "D07", "F03", "F02")),
    # A force field learns well; RMSE is its unit of error, the energy error jumps in two epochs and comes back.
    _case("healthy-atoms-in-salt"),
    # The first steps overflow while the loss scale settles, one more later; then the loss falls steadily.
    _case("healthy-bees-with-deepspeed"),
    # Reads from the hub time out and are repeated, the tokenizer warns about long texts that are cut later; the training runs
    # at a steady rate.
    _case("healthy-crawled-news"),
    # Warnings about EXIF, palettes and a checkpoint directory; train loss of single batches wobbles, the validation improves
    # to the end.
    _case("healthy-dogs-in-the-park"),
    # One class does not occur in the validation images, so its IoU is nan; the loss is fine.
    _case("healthy-facades-of-towns"),
    # The return is noisy and at first negative, and it rises; a warning about an old gym environment.
    _case("healthy-gliders-in-wind"),
    # A restarted run skips an incomplete checkpoint and goes on from the last whole one; compilation makes the first steps
    # slow, validation and saving pause it at intended intervals.
    _case("healthy-inscriptions-auto-resume"),
    # The losses of generator and discriminator of a GAN go up and down as they should; cycle loss and FID fall.
    _case("healthy-lakes-in-spring"),
    # The validation stops improving at a plateau and early stopping ends the run as intended, with the best weights; features
    # contain filled NaN.
    _case("healthy-markets-early-stop"),
    # Pipeline stages own different numbers of parameters and micro-batches in flight, so their memory is uneven by design;
    # number of nan iterations is 0.
    _case("healthy-jungle-pipeline"),
)
