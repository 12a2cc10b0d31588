"""Logs as people post them, of which most end with an error; the ninth set of its kind.

Its author knew only the ids and titles of the rules.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # After the first step DDP reports that parameters 141 to 148 got no gradient on both ranks: parts of wav2vec2 do not
    # contribute to the loss and find_unused_parameters is not set.
    _case("bird-calls-wav2vec-cluster", ("C09", "unused_params", "unused_idx"), acceptable=("child_failed", "elastic_exit")),
    # Data 1.7 s of a step time of 1.9 s: the GPU waits for the loader in every step.
    _case("bird-photos-convnext-timm", ("D01",), acceptable=("D07", "D02", "D03", "D04")),
    # Only rank 0 freezes the encoder: DDP sees 45 trainable parameters on rank 0 and 159 on rank 1.
    _case("brain-tumours-swinunetr", ("C08", "param_shape"), acceptable=("child_failed", "elastic_exit", "C15")),
    # In the middle of the training the ranks of gpu-07 find that the peer gpu-09 closed its connection (ncclRemoteError): a
    # rank there died; its own log is not shown.
    _case(
        "chess-positions-fsdp",
        ("G04", "nccl_remote", "nccl_peer_closed"),
        acceptable=("child_failed", "K03", "I12", "K05", "G01"),
    ),
    # For 25 epochs the loss stays at ln(2) = 0.693 and the accuracy at 50 %: the model learns nothing.
    _case("chest-xrays-resnet-tutorial", ("J03",), acceptable=("C02", "C01")),
    # The resident memory of the ranks grows by about 5 GB per 1000 iterations (rss column) until the cgroup kills task 1:
    # "oom_kill event", "Out Of Memory".
    _case("climate-downscaling-rds", ("H05", "slurm_oom", "H06"), acceptable=("memory_limit",)),
    # A Cascade R-CNN on 11 GB cards runs out of GPU memory on rank 2 in the assigner, at an image with many boxes; the log
    # ends with the CUDA OOM error.
    _case("coral-reef-cascade-rcnn", ("H02", "oom"), acceptable=("G04", "child_failed", "elastic_exit", "H06")),
    # Only 5 of 8 nodes reached the store of the first node within 901 s; nodes lx0602, lx0607 and lx0608 print nothing.
    _case(
        "cosmology-boxes-eight-nodes", ("G03", "rdzv_timeout"), acceptable=("G06", "K02", "srun_exit", "store_timeout", "K05")
    ),
    # The script was started with nohup python and not with torchrun: RANK is not set.
    _case("crop-yield-tsvit", ("A01", "env_rdzv_missing")),
    # After 63800 iterations rank 2 fails with a CUDA error; dmesg shows Xid 79 (fallen off the bus) for 0000:43:00 and
    # nvidia-smi no longer reaches that GPU.
    _case("drone-depth-workstation", ("I05", "gpu_lost", "I04", "xid"), acceptable=("I02", "I10")),
    # The time per iteration grows steadily from 1.8 s to 8.6 s while batch size and sequence length stay the same.
    _case("finnish-gpt-megatron", ("E10",), acceptable=("H06", "I01", "F04")),
    # srun starts four tasks, each of which says world_size=1 rank=0 and trains on all data by itself (221 batches of 64 =
    # 14120 samples each).
    _case("fish-otoliths-srun", ("A18",), acceptable=("C14", "C03", "A01", "C05", "A02")),
    # On the second node every rank (4 to 7) fails in set_device with "invalid device ordinal" although 4 devices are visible:
    # the global rank is used as device number.
    _case("galaxy-zoo-two-nodes", ("A08", "invalid_ordinal"), acceptable=("A02", "A03", "child_failed", "elastic_exit")),
    # The CPU build of torch is installed on the Windows machine: "Torch not compiled with CUDA enabled".
    _case("handwriting-crnn-lab-pc", ("A12", "not_compiled_cuda"), acceptable=("cpu_build",)),
    # RL with very noisy episode returns that rise over the run; only deprecation warnings.
    _case("healthy-ant-locomotion-cleanrl"),
    # CycleGAN with strongly fluctuating adversarial losses, as usual; times are constant and the cycle losses fall.
    _case("healthy-day-to-night-cyclegan"),
    # The batch size finder runs out of memory on purpose at larger sizes and continues with 512; the training then converges.
    _case("healthy-earthquake-picker-lightning"),
    # The dynamic loss scale overflows in the first four steps and once later, which is normal; the loss falls.
    _case("healthy-farm-chat-deepspeed"),
    # NCCL INFO lines such as "No plugin found" and the stride warning of DDP are harmless; losses fall and epochs take equal
    # times.
    _case("healthy-glaciers-segmentation-ib"),
    # Detection training with parameters missing in the checkpoint (new heads) and nan AP for sizes and classes without
    # instances; the losses fall.
    _case("healthy-insects-detectron"),
    # Usual warnings (new classifier weights, deprecations, broken EXIF), evaluations in between; loss and evaluation loss
    # fall to the end.
    _case("healthy-mosses-vit-trainer"),
    # nnU-Net with a nan pseudo Dice in epoch 0 (class not present yet), negative losses (Dice) and a slow first epoch;
    # everything improves.
    _case("healthy-pancreas-nnunet"),
    # An elastic job restarts its workers when a node joins (SIGTERM), resumes from the snapshot at step 3000 and finishes
    # with SUCCEEDED.
    _case("healthy-rna-folding-elastic"),
    # The first iteration takes 72 s because of the compilation and those with an evaluation 19 s; the rest is even and the
    # loss falls.
    _case("healthy-welsh-nanogpt"),
    # All four ranks of mpirun use the first GPU (device 41000): NCCL reports "Duplicate GPU detected".
    _case("heart-echo-singularity", ("A07", "nccl_dup_gpu"), acceptable=("mpi_exit", "G04")),
    # ConvNeXt-B at 384 px with batch 32 does not fit into a 16 GB P100. In the container torch cannot recognize its own pid,
    # so "Process 2846 has 15.43 GiB" is the run itself (14.83 + 0.32 GiB allocated by PyTorch plus the context).
    _case("herbarium-sheets-kaggle", ("H02", "oom"), acceptable=("oom_other_proc",)),
    # Lightning says "GPU available: True (cuda), used: False" and trains a BERT at 7.4 s per step on the CPU.
    _case("hindi-entities-labserver", ("A12", "pl_gpu_unused"), acceptable=("D02",)),
    # At a constant step time the peak of GPU memory ("mem") grows by 9.4 MB per iteration, from 11.8 GB to 47 GB in three
    # epochs.
    _case("indoor-scenes-swin-base", ("H06",), acceptable=("E04",)),
    # An A6000 of 47 GiB is full although this run uses 18.8 GiB: process 1904417 holds 27.93 GiB of the same GPU.
    _case("legal-briefs-qlora-kolibri", ("H03", "oom_other_proc"), acceptable=("H02", "oom", "H04")),
    # During the warmup of an MAE pretraining the loss rises in epoch 8 and becomes NaN: "Loss is nan, stopping training" on
    # all ranks.
    _case("lidar-mae-pretraining", ("J01", "nan_loss"), acceptable=("J02", "child_failed", "elastic_exit")),
    # DeepSpeed reports cache flushes of the allocator in every step: GPU memory is nearly full, and steps take 38 s.
    _case("medical-instructions-zero3", ("E04", "cache_flushes"), acceptable=("H02",)),
    # In the pod /dev/shm is too small: NCCL cannot extend its segment to 9.6 MB ("failed to extend /dev/shm/nccl-...").
    _case("molecule-graphs-kubernetes", ("G05", "nccl_shm"), acceptable=("nccl_sys", "child_failed", "elastic_exit", "D08")),
    # torch 2.6 loads only weights by default, and the checkpoint contains a NumPy scalar.
    _case("music-transformer-resume", ("weights_only",)),
    # accelerate launch finds port 29500 in use by another run on the same machine.
    _case("news-headlines-xlmr-dgx", ("G03", "addr_in_use"), acceptable=("accelerate_config",)),
    # In every line rank 5 needs 219 ms for forward and backward, the others 141 ms, and these wait 80 ms per step for it.
    _case("ocean-waves-fno", ("F02",), acceptable=("F03", "F05", "I01", "I02", "I03", "I06", "I07", "H03", "D10")),
    # The training loss falls to 0.01 while the validation loss rises from 1.0 after epoch 6 to 1.8: overfitting.
    _case("plankton-images-fastai", ("J05",)),
    # device_map spreads the layers over cuda:0 and cuda:1, so the logits are on cuda:1 while the labels are on cuda:0; the
    # custom loss gets tensors on two devices.
    _case("poetry-llama-interactive", ("A13", "two_devices", "A10"), acceptable=("E08",)),
    # The mean reward rises to 23 at iteration 1350 and then falls below its initial level, with a growing action noise.
    _case("quadruped-rough-terrain", ("J06",), acceptable=("J02",)),
    # The Trainer runs in one process with n_gpu: 4, i.e. nn.DataParallel: batch 12 per device becomes 48, and the gather
    # warning appears.
    _case("questions-squad-older-trainer", ("A09", "hf_n_gpu", "dp_gather_scalar"), acceptable=("B08",)),
    # 12 workers per rank send 13-band float32 tiles through /dev/shm, which is full: bus errors in the workers, worker 412
    # killed by "Bus error".
    _case(
        "satellite-tiles-managed-cloud", ("D08", "worker_bus"), acceptable=("worker_killed", "mpi_exit", "G04", "H05", "D02")
    ),
    # DataParallel begins with GPU 1 (device_ids [1, 2, 0]), but the model lies on cuda:0.
    _case("ship-wakes-unet-sar", ("B09", "dp_not_on_dev0")),
    # The checkpoint was written from a wrapped model: its keys begin with "module.", those of the model do not.
    _case("sign-language-i3d-windows", ("C13", "module_prefix"), acceptable=("state_dict_names",)),
    # Only rank 0 decodes the dev set with a beam search (25 minutes at this speed) while ranks 1-3 wait in an ALLREDUCE of
    # one element; after 600 s the NCCL watchdog ends them.
    _case("tamil-conformer-compose", ("F05", "C08", "G01", "nccl_watchdog"), acceptable=("F03", "G04", "F02", "B13")),
    # Replica 1 of DataParallel fails on GPU 1: the tensor tok_weights is no buffer and stays on cuda:0.
    _case("ticket-ocr-donut-pair", ("B10", "dp_replica_error"), acceptable=("A13", "two_devices")),
    # An index is larger than the embedding table (position 514 and more with max_len 640): "Assertion srcIndex <
    # srcSelectDimSize failed", device-side assert.
    _case("toxic-comments-roberta", ("illegal",)),
    # torch.distributed.launch of torch 2.0 passes --local-rank, but train.py knows only --local_rank.
    _case(
        "traffic-signs-segformer-rental",
        ("A17", "local_rank_dash"),
        acceptable=("launch_deprecated", "argparse_unknown", "child_failed", "elastic_exit"),
    ),
    # The batch job has one task per node while Lightning wants four devices.
    _case("ukrainian-lm-ampere", ("A02", "pl_slurm_tasks"), acceptable=("A01",)),
    # In fp16 the gradients overflow in every step, the loss is reported as 0.0 and the loss scale falls to 1 until DeepSpeed
    # ends the run.
    _case("urteile-bloom-deepspeed", ("J01", "loss_scale"), acceptable=("J02", "deepspeed_exit")),
    # The containers of the two hosts give NCCL addresses of private Docker networks (172.18.0.2, 172.20.0.3): "No route to
    # host", so the first collective never completes.
    _case(
        "video-diffusion-two-hosts",
        ("G02", "nccl_connect"),
        acceptable=("G03", "nccl_remote", "K05", "I12", "nccl_no_interface", "G04"),
    ),
    # YOLO caches about 50 GB of images in RAM; near the end of the caching the process is "Killed" (exit code 137), so the
    # machine ran out of memory.
    _case("wheat-heads-yolo-desktop", ("H05", "killed"), acceptable=("sigkill", "H06")),
)
