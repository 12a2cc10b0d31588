"""Words for losses, steps and epochs in other languages than English, as people print them: "Epoche 3, Verlust 0.41". Pure.

Only lines that have a word for a loss, an accuracy or an epoch are changed: then words such as the French "pas" count steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LOSS = r"(?:pertes?|verlust|p[ée]rdida|perda|perdita|потер[яи]|损失值?|損失|손실)"
_ACCURACY = r"(?:exactitude?|genauigkeit|acur[áa]cia|accuratezza|точность|准确率|正解率|정확도)"
_OF = r"(?: (?:de |d['’]|en |na |di |на )?|_)"
_CLEAR: Sequence[tuple[str, str]] = (
    (
        "val loss",
        rf"{_LOSS}{_OF}val(?:id\w{{0,12}})?|{_LOSS}{_OF}валидации|validierungsverlust|验证{_LOSS}|検証{_LOSS}|검증 ?{_LOSS}",
    ),
    ("train loss", rf"{_LOSS}{_OF}(?:entra?[iî]n\w{{0,10}}|entrenamiento|entr?|trein\w{{0,10}}|addestramento|train|обучения)"),
    ("train loss", rf"trainings?verlust|训练{_LOSS}|訓練{_LOSS}|学習{_LOSS}|훈련 ?{_LOSS}"),
    ("loss", _LOSS),
    (
        "val accuracy",
        rf"{_ACCURACY}{_OF}val(?:id\w{{0,12}})?|{_ACCURACY}{_OF}валидации|validierungsgenauigkeit|验证{_ACCURACY}|検証{_ACCURACY}"
        rf"|검증 ?{_ACCURACY}",
    ),
    (
        "train accuracy",
        rf"{_ACCURACY}{_OF}(?:entra?[iî]n\w{{0,10}}|entrenamiento|train|обучения)|trainings?genauigkeit|训练{_ACCURACY}"
        rf"|訓練{_ACCURACY}|学習{_ACCURACY}|훈련 ?{_ACCURACY}",
    ),
    ("accuracy", _ACCURACY),
    ("epoch", r"[ée]poque|epoche|[ée]poca|эпох[аи]|轮次|エポック|에포크|에폭"),
)
"""English words, and what they are in other languages. The first that fits is taken."""
_AMBIGUOUS: Sequence[tuple[str, str]] = (("step", r"pas|schritt|pass?o|[ée]tape|шаг|步数|ステップ|스텝"),)
"""Words that also have other meanings: they count only next to one of the others."""
_ENGLISH = (*_CLEAR, *_AMBIGUOUS)


def _pattern(words: Sequence[tuple[str, str]]) -> re.Pattern[str]:
    # A letter before or after makes another word of it, but Chinese, Japanese and Korean write words without blanks.
    return re.compile("|".join(rf"((?<![a-zа-яé])(?:{text})(?![a-zа-яé]))" for _, text in words), re.IGNORECASE)


_WORD, _CLEAR_WORD = _pattern(_ENGLISH), _pattern(_CLEAR)
_FIRST_WITHOUT_BLANKS = "\u2e80"
"""The characters of Chinese, Japanese and Korean come after it."""
_SIGNS = (
    *("perte", "verlust", "rdida", "perda", "perdita", "потер", "损失", "損失", "손실"),
    *("exactitud", "genauigkeit", "acurácia", "acuracia", "accuratezza", "точность", "准确率", "正解率", "정확도"),
    *("poque", "poche", "poca", "эпох", "轮次", "エポック", "에포크", "에폭"),
)
"""One of these is part of each clear word. Bars have characters beyond ASCII, too, and a search of each would take long."""


def _shows_sign(line: str) -> bool:
    lower = line.lower()
    return any(sign in lower for sign in _SIGNS)


def in_english(line: str) -> str:
    """Return the line with such words in English, or as it is."""
    if not _shows_sign(line) or not _CLEAR_WORD.search(line):
        return line
    return _WORD.sub(_english, line)


def _english(found: re.Match[str]) -> str:
    assert found.lastindex is not None
    word = _ENGLISH[found.lastindex - 1][0]
    return f" {word} " if found[0] >= _FIRST_WITHOUT_BLANKS else word
