"""Texts of vLLM about memory and models at its start. Pure.

Sources: vLLM 0.2 to 0.11, vllm/worker/worker.py ("No available memory for the cache blocks", "larger than the maximum number
of tokens") and, since 0.8, vllm/v1/core/kv_cache_utils.py, vllm/v1/worker/gpu_worker.py, vllm/v1/engine/utils.py;
vllm/platforms/cuda.py; vllm/config.
"""

from __future__ import annotations

from gputop.doctor.logs.patterns.pattern import Pattern, cascade, failure

_LESS = "vllm serve MODEL --max-model-len 8192  # as long as a request and its answer need\n"
_ROOM = "vllm serve MODEL --gpu-memory-utilization 0.95  # a larger share, if nobody else uses the GPU\n"
_MORE = "vllm serve MODEL --tensor-parallel-size 2  # or over more GPUs, or a quantized model"

PATTERNS: tuple[Pattern, ...] = (
    failure(
        "vllm_memory_taken",
        "H03",
        "Free memory on device",
        r"Free memory on device ?(?P<device>[\w:]+)? \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than "
        r"desired GPU memory utilization \((?P<share>[\d.]+), (?P<wanted>[\d.]+) GiB\)",
        "vLLM needs {wanted} GiB of GPU memory, but only {free} of {total} GiB are free",
        "Another process holds the rest: a server, a training run, or what is left of an earlier start.",
        "nvidia-smi  # who holds it; an engine of an earlier start is called VLLM::EngineCore\n"
        "vllm serve MODEL --gpu-memory-utilization 0.5  # a share of the whole GPU, not of what is free",
        refuted_by="nvidia-smi shows the GPU empty when the server starts.",
        groups={"device": ""},
    ),
    failure(
        "vllm_context",
        "H02",
        "larger than the available KV",
        r"max seq len \((?P<length>\d+)\),? \(?(?P<wanted>[\d.]+) Gi?B KV cache is ?needed, which is larger than the "
        r"available KV [Cc]ache memory \((?P<free>[\d.]+) Gi?B\)(?:.{0,400}?estimated maximum model length is (?P<fits>\d+))?",
        "The KV cache for one request of {length} tokens needs {wanted} GiB, but only {free} GiB are left",
        "By default, vLLM reserves memory for the longest request that the model accepts; weights and activations leave less.",
        f"{_LESS}{_ROOM}{_MORE}",
        refuted_by="The server starts with the same length on the same GPU while it is empty.",
    ),
    failure(
        "vllm_context",
        "H02",
        "can be stored in KV cache",
        r"max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache "
        r"\((?P<fits>\d+)\)",
        "The KV cache holds {fits} tokens, but one request may have {length}",
        "By default, vLLM reserves memory for the longest request that the model accepts; weights and activations leave less.",
        f"{_LESS}{_ROOM}{_MORE}",
        refuted_by="The server starts with the same length on the same GPU while it is empty.",
    ),
    failure(
        "vllm_no_cache",
        "H02",
        "No available memory for the cache blocks",
        r"No available memory for the cache blocks",
        "No GPU memory is left for the KV cache of vLLM",
        "The weights and the activations of the profiling run fill the share of the GPU that vLLM may use.",
        f"{_ROOM}{_MORE}",
        refuted_by="The server starts with the same model on the same GPU while it is empty.",
    ),
    failure(
        "vllm_length",
        None,
        "greater than the derived max_model_len",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len",
        "--max-model-len {asked} is longer than the model allows",
        "The model's configuration allows fewer positions.",
        "vllm serve MODEL  # without --max-model-len: the model's own length",
        refuted_by="The model's config.json has that many positions.",
    ),
    failure(
        "vllm_heads",
        None,
        "divisible by tensor parallel size",
        r"attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size \((?P<size>\d+)\)",
        "{heads} attention heads cannot be divided evenly among {size} GPUs",
        "Tensor parallelism gives each GPU the same number of heads.",
        "vllm serve MODEL --tensor-parallel-size 2  # a divisor of {heads}; the rest with --pipeline-parallel-size",
        refuted_by="{heads} is a multiple of {size}.",
    ),
    failure(
        "vllm_bfloat16",
        None,
        "is only supported on GPUs with compute capability",
        r"(?P<type>\b\w+) is only supported on GPUs with compute capability of at least (?P<least>[\d.]+)\. Your "
        r"(?P<gpu>.{1,80}?) GPU has compute capability (?P<has>[\d.]+\d)",
        "{gpu} cannot compute in {type} (it has compute capability {has})",
        "The type needs a newer GPU.",
        "vllm serve MODEL --dtype half",
        refuted_by="torch.cuda.get_device_capability() is {least} or higher.",
    ),
    cascade(
        "vllm_engine",
        "G04",
        "Engine core initialization failed",
        r"Engine core initialization failed",
        "vLLM's engine did not start",
        "The engine's own error is above this line.",
        "# read what EngineCore printed before",
    ),
)
