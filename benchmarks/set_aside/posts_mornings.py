"""Logs as reports of popular repositories paste them, all set aside: what an issue morning brings, by their own print styles.

Each comment names the cause.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)
_LOST = ("exception", "G04")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # nanoGPT: another process holds 19.40 of the GPU's 21.99 GiB.
    _case("nanogpt-on-a-shared-box", ("H03",), acceptable=("H02", "exception")),
    # GPT-NeoX: the data set lies on a local disk that one of four nodes does not have.
    _case("neox-on-four-nodes", (ANY,), "pile_text_document|no such file|not exist|missing|not found", _LOST),
    # nnU-Net: a background worker gets no memory of the host.
    _case("nnunet-fold-three", (ANY,), "memory", ("H05", "exception")),
    # TRL: an argument that a newer SFTTrainer no longer takes.
    _case("orca-instructions-with-trl", (ANY,), "dataset_text_field|keyword|argument|version", _UNEXPLAINED),
    # timm: a label beyond the number of classes.
    _case("photo-classes-with-timm", (ANY,), "n_classes|class|label|target|index", ("illegal", "exception")),
    # Detectron2 stops at a loss that is not finite.
    _case("plankton-with-detectron2", ("J01", "nan_loss"), acceptable=("J02", "exception")),
    # diffusers: DreamBooth on a GPU of 8 GiB.
    _case("ponies-on-an-eight-gig-card", ("H02",), acceptable=_UNEXPLAINED),
    # Ultralytics on Windows: no main guard, so each worker starts the training again.
    _case("pose-model-on-windows", (ANY,), "__main__|main guard|main module|import", _UNEXPLAINED),
    # Ultralytics on Windows: the paging file is too small for eight workers.
    _case("potato-leaves-yolov8", (ANY,), "paging|page ?file|virtual memory|memory", ("H05", "exception")),
    # TRL: one rank of four has the long pair of answers.
    _case("preference-tuning-with-trl", ("H02",), acceptable=_LOST),
    # MMDetection: a head for 80 classes and a data set of three.
    _case("quokkas-with-mmdetection", (ANY,), "num_classes|classes", _UNEXPLAINED),
    # PEFT: names of layers that another architecture has.
    _case("qwen-adapters-with-peft", (ANY,), "target.?modules|query_key_value", _UNEXPLAINED),
    # torchtune: bfloat16 on a GPU older than Ampere.
    _case("qwen-on-a-rtx-2080-with-torchtune", (ANY,), "bf16|bfloat16", _UNEXPLAINED),
    # DDP: parameters 84 to 87 take no part in the loss.
    _case("reconstructions-with-accelerate", ("C09",), acceptable=_UNEXPLAINED),
    # Megatron: six ranks do not divide into groups of four.
    _case("research-node-with-six-cards", (ANY,), "divisible|divide|multiple", _UNEXPLAINED),
    # timm: eight processes, and the last one finds no GPU.
    _case(
        "resnet-recipe-for-eight", (ANY,), r"ordinal|more (ranks|processes)|fewer|no(t| such) .{0,15}exist|no such|nproc", _LOST
    ),
    # kohya: the weights to go on from were not written to their end.
    _case("resumed-character-lora", (ANY,), "incomplete|truncated|corrupt|damaged|cut off|not complete", _UNEXPLAINED),
    # Lightning: rank 0 is in an all-reduce, and the others are in an all-gather.
    _case("retina-vessels-with-lightning", ("C08",), acceptable=("G01", "cpp_terminate")),
    # YOLOv5: PyTorch 2.6 loads weights only, and the checkpoint holds the model.
    _case("ripeness-model-from-2023", (ANY,), "weights.?only", ("weights_only", "exception")),
    # Stable-Baselines3: the return rises to 2240 and then falls to 41.
    _case("sac-on-a-six-legged-robot", ("J06",)),
    # diffusers: validation runs with half inputs through a float32 ControlNet.
    _case("sketches-through-a-controlnet", (ANY,), "dtype|half|float|precision", _UNEXPLAINED),
    # Slurm ends the job at its time limit.
    _case("speech-pretraining-in-a-batch-job", (ANY,), "time.?limit|--time", ("slurm_cancelled",)),
    # axolotl: FlashAttention 2 on Volta.
    _case("stories-with-axolotl-on-rented-v100", (ANY,), "ampere|flash.?attention", _UNEXPLAINED),
    # YOLOv5: the default port belongs to the first training.
    _case("street-signs-from-a-second-window", (ANY,), "29500|port", ("G03", "exception")),
    # DeepSpeed: the linker does not find cuRAND, so rank 0 cannot build the optimizer; rank 1 then misses the result.
    _case("ten-billion-with-offload", (ANY,), "curand|linker|LIBRARY_PATH", _LOST),
    # nanoGPT: the loss stays where it began for 6000 iterations.
    _case("tiny-stories-from-scratch", ("J03",)),
    # transformers: a head of 39 labels in the checkpoint, and 21 in the data.
    _case("token-tags-for-court-rulings", (ANY,), "shape|size|classes|labels", _UNEXPLAINED),
    # fairseq: the loss scale falls below its minimum.
    _case(
        "translation-into-xhosa",
        (ANY,),
        "explod|diverg|overflow|loss scale|learning rate",
        ("J01", "J02", "nan_loss", "exception"),
    ),
    # Ultralytics in Docker: /dev/shm is too small for 16 workers.
    _case("turbines-in-the-ultralytics-image", ("D08",), acceptable=_UNEXPLAINED),
    # Unsloth: a head in float32 behind a model in float16.
    _case("tutor-bot-with-unsloth", (ANY,), "dtype|half|float", _UNEXPLAINED),
    # PyTorch: the tutorial's script was started without torchrun.
    _case("tutorial-on-the-lab-machine", ("A01",), acceptable=_UNEXPLAINED),
    # FastChat: the driver is too old for the wheel, so that fp16 is refused.
    _case("vicuna-after-conda-install", (ANY,), "driver", ("A12", "I10", "exception")),
    # LLaVA: /dev/shm is too small for NCCL. One of two ranks tells it.
    _case("visual-instructions-in-a-container", ("G05",), acceptable=("D08", "nccl_system", "exception", "G04")),
    # timm: nine tenths of each step are waiting for data.
    _case("vit-with-timm-on-an-expensive-node", ("D01",), acceptable=("D02", "D07")),
    # Stable-Baselines3: the policy has become NaN after its losses exploded.
    _case("walker-in-sixty-four-envs", (ANY,), r"\bnan\b|diverg|explod", ("J01", "J02", "nan_loss", "exception")),
    # Whisper: a transcript of more tokens than the decoder takes.
    _case("whisper-learns-dutch", (ANY,), "448|too long|length|tokens", _UNEXPLAINED),
    # transformers: the disk is full when rank 0 saves.
    _case("xlm-roberta-on-two-3090", (ANY,), "disk|space", _LOST),
    # DINO: a file on rank 1 is no picture.
    _case("xray-pretraining-with-dino", (ANY,), "image file|picture|corrupt|damaged|truncated|cannot identify", _LOST),
    # Four ranks load 34 billion parameters each into 251 GiB of the host.
    _case("yi-34b-on-four-cards", ("H05",), acceptable=("G04", "signal_killed")),
    # A structure that is absent from the validation patches has no Dice.
    _case("healthy-nnunet-without-one-structure"),
    # The rewards of the pendulum are penalties.
    _case("healthy-pendulum-pays-penalties"),
    # A few files are repaired or left out.
    _case("healthy-penguins-with-damaged-files"),
    # Two requests to the hub time out, and the third succeeds.
    _case("healthy-qwen-waits-for-its-data-set"),
    # fp16 lowers its scale six times at the start, and never again.
    _case("healthy-scaler-looks-for-a-footing"),
    # No small objects: COCO prints -1; the head for 80 classes is not loaded.
    _case("healthy-seals-have-no-small-boxes"),
    # The tokenizer says that the text is too long before it is cut.
    _case("healthy-tokens-that-are-cut-into-blocks"),
    # One tqdm line whose losses wobble.
    _case("healthy-torchtune-in-one-line"),
    # A verifier is retried, and two answers count as 0.
    _case("healthy-vllm-and-a-verifier"),
    # A word error rate above 100 % at the first evaluation.
    _case("healthy-whisper-starts-in-the-wrong-language"),
)
