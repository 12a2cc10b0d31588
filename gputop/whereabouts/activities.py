"""What a training's main thread does at one moment, by the calls on its stack. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gputop.whereabouts.records import Activity, Call, Doing

_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib(64)?/python3(\.\d+)?/|/gputop/tracking/")
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
)
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
_STEPS_ENVIRONMENT = re.compile(r"^(rollout\w*|collect_(rollouts?|episodes?|experience)|play_\w+|self_play\w*|run_episode)$")


def is_library(path: str) -> bool:
    """Return whether a file belongs to Python, to an installed package, or to gputop, also where that runs from a checkout.

    By the path alone: the process may use another Python than this one.
    """
    return _LIBRARY.search(path) is not None


def doing(calls: Sequence[Call]) -> Doing:
    """Return what a main thread does whose stack is ``calls``, innermost first."""
    own = next((call for call in calls if not is_library(call.path)), None)
    activity = _activity(calls)
    if own is None:
        return Doing(activity)
    return Doing(activity, f"{own.path.rpartition('/')[2]}:{own.line}", own.function)


def _activity(calls: Sequence[Call]) -> Activity:
    named: Activity | None = None
    optimizes = False
    for activity, is_own in _decisive(calls):
        if is_own and activity in ("data", "metrics"):
            named = named or activity  # by a name only: if a model is called inside, that is what counts
        elif activity == "optimizer":
            optimizes = True  # a closure may be called inside
        else:
            return activity
    if named is not None or optimizes:
        return named or "optimizer"
    return "import" if any(call.path.startswith("<frozen importlib") for call in calls) else "other"


def _decisive(calls: Sequence[Call]) -> Iterator[tuple[Activity, bool]]:
    """Yield what the calls stand for, outermost first, and whether only the name of an own function says so."""
    for place in range(len(calls) - 1, -1, -1):
        call = calls[place]
        if call.function == "<module>":
            continue
        if not is_library(call.path):
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
    (_PREPARES, "data"),
    (_MEASURES, "metrics"),
)


def _of_library(call: Call) -> Activity | None:
    for pattern, activity in _PATHS:
        if pattern.search(call.path):
            if activity == "checkpoint" and call.function in _READS:
                return None
            if activity == "backward" and call.function not in _BACKWARD:
                return None
            return activity
    return "evaluation" if call.function in ("evaluation_loop", "_run_validation", "_run_evaluate") else None
