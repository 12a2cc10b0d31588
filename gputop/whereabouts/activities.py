"""What a training's main thread does at one moment, by the calls on its stack. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gputop.whereabouts.records import Activity, Call, Doing

_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib(64)?/python3(\.\d+)?/|/gputop/tracking/")
_IMPORTS = "<frozen importlib"
_MODULE_CALL = re.compile(r"/torch/nn/modules/module\.py$")
_PATHS: tuple[tuple[re.Pattern[str], Activity], ...] = (
    (re.compile(r"/torch/serialization\.py$|/safetensors/|/torch/distributed/checkpoint/"), "checkpoint"),
    (re.compile(r"/(gym|gymnasium|pettingzoo|dm_control|mujoco|procgen|ale_py|brax|isaacgym)/"), "environment"),
    (re.compile(r"/torch/distributed/(distributed_c10d|_functional_collectives)\.py$"), "collective"),
    (re.compile(r"/torch/(_dynamo|_inductor)/|/triton/compiler/"), "compile"),
    (
        re.compile(
            r"/torch/utils/data/|/torchaudio/(transforms|functional|compliance|_backend)|/torchvision/(transforms|io|datasets)/|"
            r"/transformers/(tokenization|feature_extraction|image_processing|processing)|/transformers/models/\w+/"
            r"(tokenization|feature_extraction|image_processing|processing)|"
            r"/(PIL|librosa|soundfile|albumentations|imageio|skimage|nltk|spacy|datasets|webdataset|h5py|tokenizers|kornia/augment\w*"
            r"|sentencepiece|tiktoken|streaming|ffcv|litdata)(/|\.py$)"
        ),
        "data",
    ),
    (
        re.compile(
            r"/(torchmetrics|torcheval|sklearn/metrics|evaluate|pycocotools|sacrebleu|jiwer|rouge_score|scipy/stats)(/|\.py$)"
        ),
        "metrics",
    ),
    (re.compile(r"/torch/autograd/(__init__|graph)\.py$|/torch/_tensor\.py$"), "backward"),
    (re.compile(r"/torch/optim/"), "optimizer"),
    (re.compile(r"/torch/cuda/memory\.py$"), "memory"),
    (
        re.compile(
            r"/torch/utils/tensorboard/|/(tensorboard|tensorboardX|wandb|mlflow|neptune|comet_ml|clearml|matplotlib|plotly|seaborn"
            r"|bokeh)/"
        ),
        "report",
    ),
    (
        re.compile(
            r"/(subprocess|socket|ssl)\.py$|/(urllib/request|http/client)\.py$|/(requests|urllib3|httpx|aiohttp|boto3|botocore|"
            r"paramiko|fsspec|s3fs|gcsfs|huggingface_hub|smart_open)/"
        ),
        "wait",
    ),
    (
        re.compile(
            r"/(shutil|tarfile|zipfile|gzip|lzma|bz2|csv|pickle)\.py$|/zipfile/|/json/(__init__|encoder)\.py$|/numpy/.*npyio\w*\.py$"
            r"|/pandas/io/|/(joblib|cloudpickle)/"
        ),
        "files",
    ),
)
_WRITES = re.compile(r"^_?(copy|move|make_archive|add|write|save|dump|iterencode|encode|to_)")
"""Functions of files that may also be read."""
_WEAK: frozenset[Activity] = frozenset(("files", "report", "wait", "memory"))
_WEAK_BY_NAME: frozenset[Activity] = frozenset(("data", "metrics", "files"))
"""What says less than a call inside, if a library is called, or a function of the user's own: a data set may ask a service."""
_READS = frozenset(("load", "_load", "_legacy_load", "load_file"))
"""Functions of the files of checkpoints that write none."""
_BACKWARD = frozenset(("backward", "_engine_run_backward", "grad"))
_EVALUATES = re.compile(r"^_?(run_)?(evaluat\w*|validat\w*|val|eval|eval_\w+|val_\w+|test_(epoch|loop|step|model))$")
_SAVES = re.compile(
    r"^_?(save_(checkpoint|model|state|weights|ckpt|pretrained)\w*|write_checkpoint|save_ckpt|checkpoint_model)$"
)
_PREPARES = re.compile(
    r"token|collat|augment|preproc|prepare_(batch|data|sample|input)|(load|read|make|get|next|build|fetch)_(image|audio|clip|video|"
    r"sample|item|batch|data|wav|line|record|example|chunk)|batches|featuri|extract_feat|__(getitem|iter|next)__|resize|spectrogram|"
    r"log_?mel|decode_(image|jpeg|audio|video)|encode_(text|batch|line|example|sentence)"
)
_MEASURES = re.compile(
    r"metric|accura|auroc|(^|_)(auc|f1|wer|cer|bleu|rouge|iou|miou|map|nms|recall|precision|confusion)(_|$)|edit_distance|levenshtein"
)
_DRAWS = re.compile(
    r"^_?((log|plot|show|draw|render|dump|make)_(sample|image|picture|prediction|example|recon|figure|attention|histogram|grid)\w*"
    r"|visuali[sz]e\w*|plot\w*)$"
)
_GENERATES = re.compile(
    r"^_?((generate|sample|write|tell|complete)_(text|stor(y|ies)|tokens?|samples?|sequences?|sentences?|images?|captions?|answers?"
    r"|completions?|repl(y|ies)|examples?|poem|output)|generate|(ddim|ddpm|p)_sample(_loop)?|(greedy|beam)_(search|decode)\w*)$"
)
"""Counts where it calls the model: what generates data does not."""
_OF_GENERATION = re.compile(r"/transformers/generation/")
_KEEPS = re.compile(r"^_?(save|dump|export|backup|back_up|snapshot|archive|upload)(_\w+)?$")
_STEPS_ENVIRONMENT = re.compile(r"^(rollout\w*|collect_(rollouts?|episodes?|experience)|play_\w+|self_play\w*|run_episode)$")


def is_library(path: str) -> bool:
    """Return whether a file belongs to Python, to an installed package, or to gputop, also where that runs from a checkout.

    By the path alone: the process may use another Python than this one.
    """
    return _LIBRARY.search(path) is not None


def own_call(calls: Sequence[Call]) -> Call | None:
    """Return the innermost call of the user's own code, of a comprehension or lambda the one around it."""
    own = [call for call in calls if not is_library(call.path)]
    return next((call for call in own if call.function == "<module>" or call.function[:1] != "<"), own[0] if own else None)


def doing(calls: Sequence[Call], text: str | None = None) -> Doing:
    """Return what a main thread does whose stack is ``calls``, innermost first. ``text`` is the line of ``own_call``.

    Functions written in C leave no call on a stack: where the calls do not say what is done, the line does.
    """
    own = own_call(calls)
    activity = _activity(calls)
    if own is None:
        return Doing(activity)
    if activity == "other" and text is not None:
        activity = next((found for pattern, found in _TEXTS if pattern.search(text)), activity)
    return Doing(activity, f"{own.path.rpartition('/')[2]}:{own.line}", own.function, text)


def _activity(calls: Sequence[Call]) -> Activity:
    named: Activity | None = None
    optimizes = generates = False
    for activity, is_own in _decisive(calls):
        if activity == "generation":
            generates = True
        elif activity == "forward" and generates:
            return "generation"
        elif activity in (_WEAK_BY_NAME if is_own else _WEAK):
            named = named or activity  # if a model is called inside, that is what counts
        elif activity == "optimizer":
            optimizes = True  # a closure may be called inside
        else:
            return activity
    if named is not None or optimizes:
        return named or "optimizer"
    return "import" if any(call.path.startswith(_IMPORTS) for call in calls) else "other"


def _decisive(calls: Sequence[Call]) -> Iterator[tuple[Activity, bool]]:
    """Yield what the calls stand for, outermost first, and whether only the name of an own function says so."""
    imports = next((place for place, call in enumerate(calls) if call.path.startswith(_IMPORTS)), len(calls))
    for place in range(len(calls) - 1, -1, -1):
        call = calls[place]
        if call.function == "<module>":
            continue
        if place > imports and is_library(call.path) and not call.path.startswith("<"):
            continue  # it is only being imported: the first optimizer imports the compiler
        if not is_library(call.path):
            if _GENERATES.search(call.function):
                yield "generation", True
            found = _of_own(call.function) or ("data" if call.is_generator and call.function[0] != "<" else None)
            if found is not None:
                yield found, True
        elif _MODULE_CALL.search(call.path):
            if _called(calls[:place]) not in ("data", "metrics"):
                yield "forward", False
        else:
            known = _of_library(call)
            if known is not None:
                yield known, False


def _called(inner: Sequence[Call]) -> Activity | None:
    """Return what the module that is called stands for: transforms and metrics are modules, too."""
    for call in reversed(inner):
        if not _MODULE_CALL.search(call.path):
            return _of_library(call) if is_library(call.path) else None
    return None


def _of_own(function: str) -> Activity | None:
    for pattern, activity in _OWN:
        if pattern.search(function):
            return activity
    return None


_OWN: tuple[tuple[re.Pattern[str], Activity], ...] = (
    (_SAVES, "checkpoint"),
    (_STEPS_ENVIRONMENT, "environment"),
    (_EVALUATES, "evaluation"),
    (_DRAWS, "report"),
    (_PREPARES, "data"),
    (_MEASURES, "metrics"),
    (_KEEPS, "files"),
)
_TEXTS: tuple[tuple[re.Pattern[str], Activity], ...] = (
    # Weights that are updated by hand.
    (re.compile(r"(?:-=|\b(?:add|sub|addcdiv|all_reduce)_?\()[^#]*\w\.grad\b(?!\()|\w\.grad (?:[-+*/]?=)(?!=)"), "optimizer"),
    (re.compile(r"\bgc\.collect\(|\bempty_cache\(|\bmalloc_trim\("), "memory"),
    (
        re.compile(
            r"\bsleep\(|\bsubprocess\.|\bos\.(system|popen)\(|\brequests\.\w+\(|\burlopen\(|\.communicate\(|\.recv\(|\binput\("
        ),
        "wait",
    ),
    (re.compile(r"\badd_(scalar|image|histogram|figure|video|text)s?\(|\bsavefig\(|\b(wandb|mlflow|plt)\.\w"), "report"),
    (
        re.compile(
            r"\.dump\(|\bnp\.save\w*\(|\.save(_\w+)?\(|\.to_(csv|json|parquet|pickle|hdf|excel)\(|\.write(lines|rows?)?\(|"
            r"\bfsync\(|\bshutil\.\w|\bimwrite\("
        ),
        "files",
    ),
    (
        re.compile(r"(auroc|roc_auc\w*|(\b|_)(f1|f1_score|wer|cer|bleu|rouge|miou|iou)|edit_?distance|confusion_?matrix)\("),
        "metrics",
    ),
    # A batch that is built from Python's own objects, or read.
    (
        re.compile(
            r"\b(?:torch\.(?:tensor|as_tensor|stack|\w+Tensor)|np\.(?:array|asarray|stack|concatenate))\(\s*\[[^#]*\bfor\b|"
            r"\bnp\.(?:load|fromfile|genfromtxt|loadtxt)\(|\bImage\.open\(|\bimread\(|\bjson\.loads?\(|\bread_(?:image|csv|parquet)\("
        ),
        "data",
    ),
)
"""What a line does whose calls leave no trace on the stack."""


def _of_library(call: Call) -> Activity | None:
    if _OF_GENERATION.search(call.path):
        return "generation"
    for pattern, activity in _PATHS:
        if pattern.search(call.path):
            if activity == "checkpoint" and call.function in _READS:
                return None
            if activity == "backward" and call.function not in _BACKWARD:
                return None
            if activity == "files" and not _WRITES.search(call.function):
                return None
            if activity == "memory" and call.function != "empty_cache":
                return None
            return activity
    return "evaluation" if call.function in ("evaluation_loop", "_run_validation", "_run_evaluate") else None
