"""Losses, steps and epochs that a script prints in the language of its author."""

from __future__ import annotations

import math

import pytest

from gputop.tracking.own_output import shows_sign
from gputop.tracking.printed.languages import in_english
from gputop.tracking.printed.transcript import Transcript

Taken = list[tuple[int, dict[str, float]]]


def taken(*lines: str) -> Taken:
    return list(Transcript(with_bars=True).feed(("\n".join(lines) + "\n").encode()))


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("Epoche 3/10: Verlust 0.41, Genauigkeit 0.81", {"loss": 0.41, "accuracy": 0.81, "epoch": 3.0}),
        ("Epoche 4/10 Trainingsverlust: 0.3 Validierungsverlust: 0.5", {"train_loss": 0.3, "val_loss": 0.5, "epoch": 4.0}),
        ("époque 2 - perte: 0.51 - perte de validation: 0.7", {"loss": 0.51, "val_loss": 0.7, "epoch": 2.0}),
        ("perte d'entraînement : 0.51, perte_val : 0.7", {"train_loss": 0.51, "val_loss": 0.7}),
        ("Época 3 | pérdida ent 0.41 | pérdida val 0.6", {"train_loss": 0.41, "val_loss": 0.6, "epoch": 3.0}),
        ("ép 01 passo 020 perda 0.41 lr 1.0e-03 1.03s", {"loss": 0.41, "lr": 1e-3, "epoch": 1.0}),
        ("época 3 pérd. ent. 0.41 pérd. val. 0.6", {"train_loss": 0.41, "val_loss": 0.6, "epoch": 3.0}),
        *(
            (line, {"train_loss": 0.41, "train_accuracy": 0.81, "val_loss": 0.6, "val_accuracy": 0.7, "epoch": 3.0})
            for line in (
                "época 3 pérd. ent. 0.41 ac. ent. 0.81 pérd. val. 0.6 ac. val. 0.7",
                "época 3 pérd.entr 0.41 prec.entr 0.81 | pérd.val 0.6 prec.val 0.7",
                "época 3 perd. entr.: 0.41, exact. ent.: 0.81, perd. val.: 0.6, exact. val.: 0.7",
            )
        ),
        ("Época 3, pérdida: 0.41, pérdida de validación: 0.6", {"loss": 0.41, "val_loss": 0.6, "epoch": 3.0}),
        ("época 3, perda de treino 0.31, acurácia 0.9", {"train_loss": 0.31, "accuracy": 0.9, "epoch": 3.0}),
        ("epoca 1 perdita: 0.2 perdita di validazione: 0.3", {"loss": 0.2, "val_loss": 0.3, "epoch": 1.0}),
        ("Эпоха 3: потери 0.51, точность 0.9", {"loss": 0.51, "accuracy": 0.9, "epoch": 3.0}),
        ("轮次：3 训练损失：0.4，验证损失：0.6", {"train_loss": 0.4, "val_loss": 0.6, "epoch": 3.0}),
        ("エポック 3 損失: 0.5 正解率: 0.7", {"loss": 0.5, "accuracy": 0.7, "epoch": 3.0}),
        ("에포크 2 손실: 0.3 정확도: 0.8", {"loss": 0.3, "accuracy": 0.8, "epoch": 2.0}),
        ("epok 3 | kayıp 0.41 | doğrulama kaybı 0.6", {"loss": 0.41, "val_loss": 0.6, "epoch": 3.0}),
        ("epok 3 eğitim kaybı 0.41 doğruluk 0.8", {"train_loss": 0.41, "accuracy": 0.8, "epoch": 3.0}),
        ("Epoka 3/9 strata 0.41 strata walidacyjna 0.6", {"loss": 0.41, "val_loss": 0.6, "epoch": 3.0}),
        (
            "epoch 3 verlies 0.41 validatieverlies 0.6 nauwkeurigheid 0.8",
            {"loss": 0.41, "val_loss": 0.6, "accuracy": 0.8, "epoch": 3.0},
        ),
        ("epok 3: förlust 0.41, valideringsförlust 0.6", {"loss": 0.41, "val_loss": 0.6, "epoch": 3.0}),
        ("epocha 3 ztráta 0.41 validační ztráta 0.6", {"loss": 0.41, "val_loss": 0.6, "epoch": 3.0}),
        ("епоха 3 втрати 0.41", {"loss": 0.41, "epoch": 3.0}),
        ("epoch 3 sonshitsu 0.41", {"loss": 0.41, "epoch": 3.0}),
        ("passo 25000 | retorno médio (100 ep.)   -123.6", {"mean_return": -123.6}),
        ("epoch 3 损失 0.5 取数据 0.009s 前向+反向 0.435s", {"loss": 0.5, "epoch": 3.0}),
        ("Epoche 2 Verlust 0.5 Lernrate 0.001", {"loss": 0.5, "lr": 0.001, "epoch": 2.0}),
    ],
)
def test_a_line_in_another_language_has_english_names(line: str, metrics: dict[str, float]) -> None:
    assert [found for _, found in taken(line)] == [metrics]
    assert shows_sign(line)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("pas 120 perte 0.4", 120),
        ("Schritt 120: Verlust 0.4", 120),
        ("paso 120, pérdida 0.4", 120),
        ("passo 120 perda=0.4", 120),
        ("шаг 120 потери 0.4", 120),
        ("步数: 120 损失: 0.4", 120),
        ("adım 120 kayıp 0.4", 120),
        ("krok 120 strata 0.4", 120),
        ("stap 120 verlies 0.4", 120),
        ("steg 120 förlust 0.4", 120),
    ],
)
def test_steps_are_counted_in_words_of_the_same_language(line: str, step: int) -> None:
    assert taken(line) == [(step, {"loss": 0.4})]


def test_the_heading_of_a_table_may_be_in_another_language() -> None:
    (first, second) = taken(
        "| pas    | perte    | exactitude | durée  |",
        "|--------|----------|------------|--------|",
        "|     10 |   1.6094 |      0.210 |   1.5s |",
        "|     20 |      nan |      0.210 |   2.9s |",
    )
    assert first == (10, {"loss": 1.6094, "accuracy": 0.21})
    assert second[0] == 20
    assert math.isnan(second[1]["loss"])


@pytest.mark.parametrize(
    "line",
    [
        "step 3 loss 0.5",
        "nous ne pouvons pas 3",
        "Schritt 3 von 5: Daten laden",
        "expert 3 loss 0.5, property perturbed",
        "the epochal loss 0.3",
        "Verlustfunktion: 3",
        "文字 3",
        "strata 3 of 7, loss weights 0.5",
        "krok 3 z 5",
        "stap 3: data laden 5",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert in_english(line) == line


@pytest.mark.parametrize("line", ["Epoche 3: Verlust 1.3 kWh", "passo 3: perdita 10 EUR", "époque 2: perte 10 paquets"])
def test_a_loss_of_something_else(line: str) -> None:
    assert [metrics for _, metrics in taken(line) if "loss" in metrics] == []


def test_a_heading_of_short_words_may_say_that_an_accuracy_is_in_percent() -> None:
    (only,) = taken("| época | pérd. ent. | ac. ent. % | ac. val. % |", "|   3   |  0.6931    |   48.3   |   56.1   |")
    assert only[1] == {"train_loss": 0.6931, "train_accuracy_percent": 48.3, "val_accuracy_percent": 56.1, "epoch": 3.0}


def test_a_table_whose_heading_has_words_in_another_language() -> None:
    heading = "| эпоха | потери тр | потери вал| AUC тр  | сек    |"
    (_, first), *_ = taken("+-------+------+", heading, "|     1 | 0.693376  | 0.693410  | 0.4987  |  13.8  |")
    assert (first["train_loss"], first["val_loss"]) == (0.693376, 0.69341)
