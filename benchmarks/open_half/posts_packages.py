"""Logs around wordings of packages beside torch, open half: formerly set aside, until somebody had to look into them."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="open")
_UNEXPLAINED = ("exception",)

KIND = "by package"
LOGS: tuple[Case, ...] = (
    # The batches have no labels.
    _case("speech-labels-got-another-name", (ANY,), "label", _UNEXPLAINED),
    # No such choice in Hydra's group.
    _case("experiment-file-of-a-colleague", (ANY,), "unet_plus"),
    # An old bitsandbytes beside a new triton.
    _case("quantized-since-the-upgrade", (ANY,), r"triton\.ops|bitsandbytes", _UNEXPLAINED),
    # tokenizers is too old for the file.
    _case("tokenizer-of-a-newer-model", (ANY,), "tokenizers|newer|upgrade", _UNEXPLAINED),
    # A traceback that was caught and logged.
    _case("healthy-board-could-not-take-a-picture"),
    # A traceback of the compiler, which leaves one function as it is.
    _case("healthy-compiler-gives-up-on-one-frame"),
    # The file begins inside a traceback that was caught.
    _case("healthy-tail-of-a-long-file"),
)
