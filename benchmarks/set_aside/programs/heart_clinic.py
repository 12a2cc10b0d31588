"""Heart disease from a clinic's table: 24 measurements, one answer (Keras on torch)."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import argparse

import keras
import numpy as np
import torch

COLUMNS = [
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca"),
    *("thal", "bmi", "hdl", "ldl", "crp", "hba1c", "egfr", "smoker", "packyears", "sport", "stress", "family"),
]


def load_table(n: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Draw patients like those of the clinic, whose table must not leave the house."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.0, 1.0, (n, len(COLUMNS))).astype("float32")
    risk = 0.9 * x[:, 0] + 0.7 * x[:, 9] - 0.8 * x[:, 7] + 0.5 * x[:, 11] * x[:, 1] + 0.4 * x[:, 19]
    y = (risk + rng.normal(0.0, 0.5, n) > 0.4).astype("float32")
    return x * 10.0 + 50.0, y


def standardize(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, std = train.mean(0), train.std(0) + 1e-6
    return (train - mean) / std, (test - mean) / std


def build_model(width: int, dropout: float) -> keras.Model:
    model = keras.Sequential(
        [
            keras.layers.Input((len(COLUMNS),)),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1, activation="softmax"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=1e-3),
        loss="binary_crossentropy",
        metrics=["accuracy"],
    )
    return model


class EveryEpoch(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        logs = logs or {}
        print(
            f"Epoch {epoch + 1:4d}: loss={logs['loss']:.4f} accuracy={logs['accuracy']:.4f} "
            f"val_loss={logs['val_loss']:.4f} val_accuracy={logs['val_accuracy']:.4f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, default=12_000)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--dropout", type=float, default=0.2)
    args = parser.parse_args()

    torch.set_num_threads(1)
    keras.utils.set_random_seed(1)
    x, y = load_table(args.patients)
    cut = int(0.85 * len(x))
    x_train, x_test = standardize(x[:cut], x[cut:])
    y_train, y_test = y[:cut], y[cut:]
    print(f"{len(x_train)} patients for training, {len(x_test)} for validation, {y.mean():.0%} ill", flush=True)

    model = build_model(args.width, args.dropout)
    model.fit(
        x_train,
        y_train,
        validation_data=(x_test, y_test),
        epochs=args.epochs,
        batch_size=args.batch_size,
        verbose=0,
        callbacks=[EveryEpoch()],
    )
    loss, accuracy = model.evaluate(x_test, y_test, verbose=0)
    print(f"final: {loss:.4f} {accuracy:.4f}")


if __name__ == "__main__":
    main()
