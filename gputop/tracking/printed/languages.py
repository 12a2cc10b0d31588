"""Words for losses, steps and epochs in other languages than English, as people print them: "Epoche 3, Verlust 0.41". Pure.

Only lines that have a word for a loss, an accuracy or an epoch are changed, or that name two numbers of a step: then words such
as the French "pas" count steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LOSS = (
    r"(?:pertes?|verlust|p[ée]rdida|perda|perdita|kay[ıi]p|kayb[ıi]|verlies|f[öo]rlust|ztr[áa]ta|h[äa]vi[öo]|vesztes[ée]g|"
    r"потер[яи]|втрат[аи]|sonshitsu|损失值?|損失|손실)"
)
_ACCURACY = (
    r"(?:exactitude?|genauigkeit|trefferquote|treffer(?= (?:tr|pr|val|train))|"
    r"acur[áa]cia|accuratezza|do[ğg]ruluk|dok[łl]adno[śs][ćc]|nauwkeurigheid|noggrannhet|"
    r"p[řr]esnost|seikairitsu|точность|точність|准确率|正解率|정확도)"
)
_SHORT_LOSS, _SHORT_ACCURACY = r"p[ée]rd\.", r"(?:ac|prec|exact)\."
"""Only next to the word for the training or the validation: "pérd. ent."."""
_OF = r"(?: (?:de |d['’]|en |na |di |на )?|_)"
_CLEAR: Sequence[tuple[str, str]] = (
    (
        "val loss",
        rf"{_LOSS}{_OF}val(?:id\w{{0,12}})?|{_LOSS}{_OF}вал(?:идации)?|validierungsverlust|validatieverlies|valideringsf[öo]rlust"
        rf"|{_SHORT_LOSS} ?val\.?"
        rf"|(?:do[ğg]rulama|valida[čc]n[íi]){_OF}{_LOSS}|strata{_OF}walid\w{{0,10}}|验证{_LOSS}|検証{_LOSS}|검증 ?{_LOSS}",
    ),
    (
        "train loss",
        rf"{_LOSS}{_OF}(?:entra?[iî]n\w{{0,10}}|entrenamiento|entr?|trein\w{{0,10}}|addestramento|train|обучения|тр)"
        rf"|{_SHORT_LOSS} ?entr?\.?|(?:e[ğg]itim|tr[ée]novac[íi]){_OF}{_LOSS}|strata{_OF}(?:tren\w{{0,10}}|uczenia)",
    ),
    ("train loss", rf"trainings?verl(?:ust|ies)|tr[äa]ningsf[öo]rlust|训练{_LOSS}|訓練{_LOSS}|学習{_LOSS}|훈련 ?{_LOSS}"),
    ("loss", _LOSS),
    (
        "val accuracy",
        rf"{_ACCURACY}{_OF}val(?:id\w{{0,12}})?|{_ACCURACY}{_OF}валидации|validierungsgenauigkeit"
        rf"|{_SHORT_ACCURACY} ?val\.?|do[ğg]rulama{_OF}{_ACCURACY}|验证{_ACCURACY}|検証{_ACCURACY}|검증 ?{_ACCURACY}",
    ),
    (
        "train accuracy",
        rf"{_ACCURACY}{_OF}(?:entra?[iî]n\w{{0,10}}|entrenamiento|train|обучения)|trainings?genauigkeit"
        rf"|{_SHORT_ACCURACY} ?entr?\.?"
        rf"|e[ğg]itim{_OF}{_ACCURACY}|训练{_ACCURACY}|訓練{_ACCURACY}|学習{_ACCURACY}|훈련 ?{_ACCURACY}",
    ),
    ("accuracy", _ACCURACY),
    ("epoch", r"[ée]poque|ép(?= ?\d)|epoche|[ée]poca|epok[ai]?|epokku|epoch[ay]|эпох[аи]|епоха|轮次|エポック|에포크|에폭"),
    ("mean return", r"retorno m[ée]dio|rendement moyen|ritorno medio|mittlerer ertrag|ortalama getiri"),
    ("mean reward", r"recompensa (?:media|m[ée]dia)|r[ée]compense moyenne|mittlere belohnung|ortalama [öo]d[üu]l"),
    ("reward", r"recompensa|r[ée]compense|ricompensa|belohnung|[öo]d[üu]l|nagroda|награда|報酬|奖励|보상"),
    (
        "lr",
        r"lernrate|taux d['’]apprentissage|tasa de aprendizaje|taxa de aprendizado|[öo][ğg]renme oran[ıi]|学习率|学習率|학습률",
    ),
)
"""English words, and what they are in other languages. The first that fits is taken."""
_AMBIGUOUS: Sequence[tuple[str, str]] = (
    ("step", r"suteppu|pas|schritt|pass?o|[ée]tape|ad[ıi]m|krok|stap|steg|шаг|крок|步数|ステップ|스텝"),
    ("iter", r"iteraci[óo]n|it[ée]ration|itera[çc][ãa]o|iterazione|iterasyon|iteracja|iteratie|итерация"),
    ("loss", r"strata"),
    ("epoch", r"d[öo]nem"),
    ("data", r"donn[ée]es|daten|datos|dados|dati|veri|dane|данные|数据|データ|데이터"),
    ("forward", r"vorw[äa]rts|adelante|avanti|ileri|前向|正向|順伝播|전방|순전파"),
    ("backward", r"r[üu]ckw[äa]rts|atr[áa]s|arri[èe]re|indietro|geri|反向|逆伝播|역전파"),
    ("sync", r"同步|同期|동기화"),
    ("time", r"temps|zeit|tiempo|tempo|s[üu]re|czas|tijd|tid|время|用时|耗时|時間|시간"),
    ("compute", r"calcolo|c[áa]lculo|calcul|berechnung|hesaplama|obliczenia|вычисления|計算|计算|계산|연산"),
    ("wait", r"attesa|espera|attente|warten|wartezeit|bekleme|oczekiwanie|ожидание|待機|等待|대기"),
    ("total", r"totale|gesamt|toplam|razem|всего|合計|总计|합계"),
    ("memory", r"m[ée]moire|speicher|mem[óo]ria|bellek|memori|pami[ęe][ćc]|geheugen|minne|память|显存|内存|メモリ|메모리"),
)
"""Words that also have other meanings: they count only next to one of the others, or if two of them name numbers."""
_ENGLISH = (*_CLEAR, *_AMBIGUOUS)


def _pattern(words: Sequence[tuple[str, str]], after: str = "") -> re.Pattern[str]:
    # A letter before or after makes another word of it, but Chinese, Japanese and Korean write words without blanks.
    between = r"(?<![a-zа-яéğışöü])", r"(?![a-zа-яéğışöü])"
    return re.compile("|".join(rf"({between[0]}(?:{text}){between[1]}){after}" for _, text in words), re.IGNORECASE)


_WORD, _CLEAR_WORD, _NAMES_NUMBER = _pattern(_ENGLISH), _pattern(_CLEAR), _pattern(_AMBIGUOUS, r"[\"']?[ :=]{1,4}\d")
_FIRST_WITHOUT_BLANKS = "\u2e80"
"""The characters of Chinese, Japanese and Korean come after it."""
_SIGNS = (
    *("perte", "verlust", "rdida", "perda", "perdita", "kayı", "kayi", "kayb", "verlies", "rlust", "ztr", "vesztes"),
    *("vi\u00f6", "havio", "потер", "втрат", "sonshitsu", "损失", "損失", "손실"),
    *("exactitud", "genauigkeit", "acurácia", "acuracia", "accuratezza", "doğruluk", "dogruluk", "adno", "keurigheid"),
    *("noggrannhet", "esnost", "seikairitsu", "точн", "准确率", "正解率", "정확도"),
    *("poque", "poche", "poca", "epok", "epocha", "epochy", "эпох", "епох", "轮次", "エポック", "에포크", "에폭"),
    *("retorno m", "rendement m", "ritorno m", "mittler", "ortalama", "recompensa", "récompense", "recompense", "ricompensa"),
    *("belohnung", "ödül", "odul", "nagroda", "награда", "報酬", "奖励", "보상"),
    *("rd. ent", "rd. val", "rd.ent", "rd.val"),
    *("lernrate", "apprentissage", "aprendiza", "renme oran", "学习率", "学習率", "학습률"),
)
"""One of these is part of each clear word. Bars have characters beyond ASCII, too, and a search of each would take long."""
_STEP_SIGNS = (
    "pas",
    "schritt",
    "suteppu",
    "tape",
    "adım",
    "adim",
    "krok",
    "stap",
    "steg",
    "шаг",
    "крок",
    "步数",
    "ステップ",
    "스텝",
)
"""One of these is part of each word for a step: a line without a clear word has to count one, next to another number."""
_NUMBERED_MIN = 2
_OF_MONEY = re.compile(
    rf"(?i){_LOSS}\W{{1,4}}[\d.,]{{1,20}} ?(?:EUR|USD|€|\$|k?Wh?\b|dB\b|kg\b|paquets?\b|pakete?\b|paquetes\b|packets?\b|%\s)"
)
"""A loss of money, energy or packets."""


def _is_translated(line: str) -> bool:
    lower = line.lower()
    if _OF_MONEY.search(line) is not None:
        return False
    if any(sign in lower for sign in _SIGNS) and _CLEAR_WORD.search(line):
        return True
    if not any(sign in lower for sign in _STEP_SIGNS):
        return False
    return len({found.lastindex for found in _NAMES_NUMBER.finditer(line)}) >= _NUMBERED_MIN


def in_english(line: str) -> str:
    """Return the line with such words in English, or as it is."""
    return _WORD.sub(_english, line) if _is_translated(line) else line


def _english(found: re.Match[str]) -> str:
    assert found.lastindex is not None
    word = _ENGLISH[found.lastindex - 1][0]
    if found[0] < _FIRST_WITHOUT_BLANKS:
        return word
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    return f"{' ' * (before.isalnum())}{word}{' ' * (after.isalnum())}"
