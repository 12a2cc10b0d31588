"""Logs as the issue trackers of popular repositories show them, all set aside.

Each comment names the cause. Wordings are those of the projects and of torch 1.13 to 2.8; the runs around them are made up.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)
_ONE_RANK = ("exception", "G04")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # nanoGPT: torch.compile needs Triton, which does not know a GTX 1080.
    _case("nanogpt-after-dinner", (ANY,), "triton|torch.compile|too old|capability", _UNEXPLAINED),
    # nanoGPT: the loss jumps, then is nan for good.
    _case("novels-at-word-level", ("J01", "nan_loss"), acceptable=("J02",)),
    # Lightning: the very first collective, a broadcast of one number, times out on all four ranks.
    _case("orchard-drones-with-lightning", ("G02",), acceptable=("G01", "cpp_terminate")),
    # Trainer: more labels in the data than the head has classes.
    _case("news-headlines-into-topics", (ANY,), "label|n_classes|index|target", _UNEXPLAINED),
    # Trainer: the labels of a batch have different lengths and are not padded.
    _case("questions-about-manuals", (ANY,), "padding|truncation|padded|same length|labels", _UNEXPLAINED),
    # Trainer without accelerate. Windows line ends.
    _case("paraphrases-on-a-new-laptop", (ANY,), "accelerate", _UNEXPLAINED),
    # The transformers here are older than the model.
    _case("notes-of-a-board-with-qwen", (ANY,), "qwen3|out of date|upgrade|newer|recogni[sz]e", _UNEXPLAINED),
    # Accelerate: a record that only rank 1 meets lacks a key.
    _case("radiology-reports-on-two-gpus", (ANY,), "impression|KeyError", _ONE_RANK),
    # PEFT with gradient checkpointing: nothing that the loss depends on requires a gradient.
    _case("recipes-through-lora", (ANY,), "requires?.?grad|frozen|require a gradient|grad_fn", ("exception", "J03")),
    # diffusers: the trained weights themselves are float16.
    _case("pokemon-captions-with-lora", (ANY,), "fp16|float16|half|float32", _UNEXPLAINED),
    # diffusers: out of memory, with the message that torch 2.3 cuts short.
    _case("sdxl-for-ceramics", ("H02",), acceptable=_UNEXPLAINED),
    # DeepSpeed, stage 3: on rank 3, modules ran in another order than before and their weights are still being fetched.
    _case("vision-tower-with-stage-three", (ANY,), "in.?flight|ZeRO|stage.?3|fetch", ("exception", "G04", "C08")),
    # Megatron: the gradients of rank 5 are NaN.
    _case("pretrain-llama-run-17", (ANY,), "nan", ("exception", "G04", "J02")),
    # detectron2: a typo in the name of the data set.
    _case("parrots-with-mask-rcnn", (ANY,), "registered|parrots_trian", _UNEXPLAINED),
    # detectron2: the training diverges.
    _case("ships-from-orbit", (ANY,), "nan|infinite", ("exception", "J02")),
    # mmdetection: an mmcv that is too new for it.
    _case("thermal-cameras-mmdet", (ANY,), "mmcv", _UNEXPLAINED),
    # mmrotate: six parameters take no part in the loss.
    _case("oriented-boxes-on-two-cards", ("C09",), acceptable=_UNEXPLAINED),
    # timm in a container: /dev/shm is small.
    _case("resnet50-recipe-a3", ("D08",), acceptable=_UNEXPLAINED),
    # timm: the loss stays at ln 100 and the accuracy at one percent.
    _case("resnext-with-the-old-schedule", ("J03",)),
    # fairseq: rank 2's gradients are not those of the others.
    _case("wmt-en-ro-on-four", (ANY,), "inconsistent|legacy_ddp|differ", _ONE_RANK),
    # torchtune: rank 1 runs out of memory.
    _case("torchtune-llama-eight-b", ("H02",), acceptable=_ONE_RANK),
    # axolotl: rank 0 meets a kind of data set that this version has not; rank 1 only loses it.
    _case("roleplay-data-axolotl", (ANY,), "sharegpt|tokenization strategy", _ONE_RANK),
    # unsloth: no GPU in sight.
    _case("unsloth-in-wsl", (ANY,), "GPU|driver|accelerator", ("exception", "A12", "I10")),
    # Stable-Baselines3: an environment of the old gym.
    _case("trading-env-first-try", (ANY,), "shimmy|gymnasium", _UNEXPLAINED),
    # nnU-Net: the workers' tensors do not fit into /dev/shm.
    _case("spleen-fold-two", ("D08",), acceptable=_UNEXPLAINED),
    # nnU-Net: its three environment variables are not set.
    _case("prostate-as-in-the-tutorial", (ANY,), "nnUNet_(raw|preprocessed|results)|environment variable", _UNEXPLAINED),
    # Whisper: rank 1 gets a transcript of more than 448 tokens.
    _case("yoruba-with-whisper-small", (ANY,), "448|labels?.{0,40}(length|long)|truncat", _ONE_RANK),
    # kohya: the running average of the loss is nan from step 160 on.
    _case("portraits-with-kohya", ("J01", "nan_loss")),
    # Swin: eight processes on four GPUs.
    _case("swin-with-the-readme-command", (ANY,), "ordinal|nproc|only (has )?4|more (ranks|processes)", _ONE_RANK),
    # BasicSR: both ranks on one GPU.
    _case("super-resolution-on-two-ranks", ("A07",), acceptable=_UNEXPLAINED),
    # ultralytics of 2023 with torch 2.6: torch.load refuses a pickled model.
    _case("traffic-signs-with-yolo", (ANY,), "weights_only|safe.?globals|allow", _UNEXPLAINED),
    # Megatron on Slurm: the time limit.
    _case("z-loss-ablation", (ANY,), "time.?limit"),
    # mmengine: nine tenths of each step are data_time.
    _case("street-scenes-in-4k", ("D01",), acceptable=("D02", "D07")),
    # axolotl: the loss grows with the learning rate, from 1.4 to 7.8.
    _case("sft-on-support-chats", ("J02",)),
    # OpenCLIP: rank 2 crashes in native code; the others lose it.
    _case("webdataset-on-four-ranks", (ANY,), "segmentation|SIGSEGV|signal 11|native", ("G04",)),
    # The driver is older than torch's CUDA.
    _case("pix2pix-on-the-lab-server", (ANY,), "driver", ("exception", "A12")),
    # TRL with vLLM: another process holds 72 of the GPU's 79 GiB.
    _case("rollout-server-for-grpo", ("H03", "H02"), "memory", ("exception", "H04")),
    # Warnings of torch.compile; the loss wobbles and falls.
    _case("healthy-novels-on-a-small-gpt"),
    # Corrupt pictures are restored or left out.
    _case("healthy-photos-restored-on-the-way"),
    # unsloth speaks of failures and old GPUs, and trains.
    _case("healthy-qlora-with-a-sloth"),
    # A2C: the value loss grows with the returns.
    _case("healthy-rover-learns-with-a2c"),
    # nnU-Net: a pseudo Dice of nan and 0 at first.
    _case("healthy-pancreas-in-patches"),
    # kohya does without Triton; the average loss of diffusion hardly falls.
    _case("healthy-sketches-with-kohya"),
    # DPO: both rewards are negative and fall, as they do.
    _case("healthy-preferences-with-negative-rewards"),
    # DeepSpeed skips the first steps until its loss scale fits.
    _case("healthy-t5-finds-its-scale"),
    # A download is retried, and transformers warns at each evaluation.
    _case("healthy-whisper-for-welsh"),
    # mmdetection: weights of a head for other classes are left out on purpose.
    _case("healthy-tomatoes-with-a-new-head"),
)
