"""Logs as people paste them into forums, issues and letters to support, all set aside: the frequent problems, in many clothes.

Each comment names the cause. The author had not read the doctor, its rules or its tests.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="set aside")
_UNEXPLAINED = ("exception",)

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # The batch does not fit on the card.
    _case("pdf-layouts-on-a-single-a5000", ("H02",), acceptable=_UNEXPLAINED),
    # Rank 5 is out of GPU memory; ranks 4 and 6 only lose their peer.
    _case("eight-ranks-of-a-summer-school", ("H02",), acceptable=("exception", "G04")),
    # The container was started without --gpus.
    _case("container-from-a-colleagues-readme", (ANY,), "--gpus|container toolkit|nvidia runtime|driver", _UNEXPLAINED),
    # The driver is older than the wheel's CUDA; the script goes on with the CPU.
    _case("parking-lots-since-the-image-rebuild", (ANY,), "driver", ("A12",)),
    # A label beyond the number of classes on rank 1.
    _case("cifar-clone-with-own-pictures", (ANY,), "label|class|target", ("illegal", "exception", "G04")),
    # A table of positions that is neither a parameter nor a buffer stays on the host.
    _case("forecasting-with-a-home-made-transformer", ("A13",), acceptable=_UNEXPLAINED),
    # A text encoder in float16 without autocast.
    _case("portraits-with-a-text-encoder", (ANY,), "dtype|half|float16|fp16|precision|autocast", _UNEXPLAINED),
    # The first linear layer expects the size of smaller pictures.
    _case("lenet-on-larger-pictures", (ANY,), "mat1|shape|2704|in_features|size", _UNEXPLAINED),
    # Names in the model begin without "module.", in the checkpoint with it.
    _case("road-scenes-weights-from-the-cluster", ("C13",), acceptable=_UNEXPLAINED),
    # torch 2.6 loads only weights by default; the random state holds NumPy objects.
    _case("sft-goes-on-after-a-conda-update", (ANY,), "weights.only", _UNEXPLAINED),
    # The pod's /dev/shm is too small for the loader of rank 2.
    _case("reid-in-the-cluster-of-the-startup", ("D08",), acceptable=("exception", "G04")),
    # No main guard, and workers are spawned on Windows.
    _case("lecture-script-on-a-windows-laptop", (ANY,), "__main__|main guard|__name__|freeze_support", _UNEXPLAINED),
    # The data set holds an open HDF5 file, and workers are spawned on macOS.
    _case("satellite-tiles-on-a-macbook", (ANY,), "h5py|hdf5|pickl", _UNEXPLAINED),
    # NCCL of the first node takes docker0, an address that the second cannot reach.
    _case(
        "first-run-on-two-workstations",
        (ANY,),
        r"docker0|172\.17\.0\.1|IFNAME|interface",
        ("nccl_connect", "nccl_system", "exception", "G04"),
    ),
    # Another run has port 29500.
    _case("a-second-seed-on-the-same-machine", (ANY,), "29500|port|address already in use", _UNEXPLAINED),
    # The second node never came.
    _case("notes-from-the-first-of-two-nodes", ("G03", "G06"), acceptable=("G02", "exception")),
    # A script for torchrun was started in an editor.
    _case("debugging-in-the-editor", ("A01",), acceptable=("exception", "A18")),
    # The loss turns NaN under float16.
    _case("keyword-spotter-from-a-blog-post", ("J01", "nan_loss")),
    # The loss stays at ln(10), the accuracy at a tenth.
    _case("birdsong-in-ten-species", ("J03",)),
    # Gradient checkpointing over a frozen embedding: nothing requires a gradient.
    _case(
        "instructions-on-one-rented-4090",
        (ANY,),
        "enable_input_require_grads|requires? (a )?grad|requires_grad|frozen|no_grad|use_reentrant",
        _UNEXPLAINED,
    ),
    # Two workers for each of four ranks: nine tenths of a step are waiting for data.
    _case("vit-small-on-four-l40s", ("D01",), acceptable=("D07", "D02", "D03")),
    # Slurm's cgroup killed task 3, whose host memory grew.
    _case("night-shift-on-partition-gpu", ("H05",), acceptable=("G04", "signal_killed")),
    # Rank 0 has no space left for its checkpoint.
    _case("latent-transformer-on-the-shared-home", (ANY,), "space|disk|full|quota", ("exception", "G04")),
    # A user without a home may not write the cache to /.cache.
    _case("classifier-in-the-corporate-image", (ANY,), "permission|writable|may not write|HF_HOME|cannot write", _UNEXPLAINED),
    # A value that is ??? was not given.
    _case("first-call-of-the-template", (ANY,), r"recordings_dir|mandatory|\?\?\?", _UNEXPLAINED),
    # A required argument is missing; each rank says so.
    _case("launch-line-from-the-wiki", (ANY,), "--train-list|train_list", _UNEXPLAINED),
    # The second node lacks a package; the first waits for it.
    _case("works-on-one-node-of-the-pool", (ANY,), "timm", ("exception", "G03")),
    # torchvision was built for another torch.
    _case("poses-in-a-rented-notebook", (ANY,), "torchvision", _UNEXPLAINED),
    # The strategy starts the script anew, which a notebook does not allow.
    _case("four-gpus-and-a-jupyter-tab", (ANY,), "notebook|interactive|jupyter", _UNEXPLAINED),
    # GPT-2 has no padding token.
    _case("gpt2-for-support-mails", (ANY,), r"pad(ding)?[ _]token|pad_token|padding", _UNEXPLAINED),
    # Both processes loaded the quantized model onto the same GPU.
    _case(
        "quantized-llama-over-two-3090",
        (ANY,),
        "device_map|LOCAL_RANK|own GPU|different (device|GPU)|same GPU|another (device|GPU)",
        ("exception", "A07"),
    ),
    # Six tasks and four GPUs.
    _case(
        "cosmology-on-a-node-of-another-partition",
        (ANY,),
        "ordinal|[46] GPUs|(fewer|only).{0,20}GPUs|more (ranks|tasks|processes)|does not exist|no such (GPU|device)|ntasks",
        ("A08", "A03", "exception", "G04"),
    ),
    # The GPU fell off the bus.
    _case("workstation-goes-quiet", ("I05", "I04")),
    # The copy of the weights on the first node's disk is damaged; the others only lose rank 0.
    _case(
        "large-backbone-from-the-local-disk",
        (ANY,),
        "corrupt|truncat|incomplete|damaged|cut (off|short)|not (a )?complete|download|copied",
        ("exception", "G04"),
    ),
    # A record without the field in a worker of rank 6; ten minutes later, the others time out.
    _case("captions-of-a-third-collection", (ANY,), "caption_en|KeyError", ("exception", "G04")),
    # The loss grows at a rate of 0.05.
    _case("tide-gauges-with-plain-sgd", ("J02",), acceptable=("J01",)),
    # The scale of the gradients is halved three times.
    _case("healthy-first-steps-of-an-asr-model"),
    # The figure that falls is named error.
    _case("healthy-pump-sensors-and-their-error"),
    # The loss grows while the weight of one term does.
    _case("healthy-vae-with-a-warm-up-of-beta"),
    # The loss begins at that of a guess and falls slowly.
    _case("healthy-pictures-and-sentences-in-large-batches"),
    # A mount and a gateway need a second try.
    _case("healthy-pod-with-a-slow-volume"),
    # The validation metric no longer improves, and early stopping ends the run.
    _case("healthy-leaf-spots-stop-early"),
    # A noisy loss that is nearly flat, as for each diffusion model.
    _case("healthy-noise-prediction-of-album-covers"),
    # Ranks warn about a barrier and at the exit.
    _case("healthy-eight-ranks-and-a-barrier"),
    # A score of one fold is NaN and left out.
    _case("healthy-twelve-folds-of-intensive-care"),
)
