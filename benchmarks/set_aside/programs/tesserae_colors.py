"""Recognises the glass pastes of mosaic stones (tesserae) by colour and grain. Keras 3 on torch.

    python tesserae_colors.py --epochs 8
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import argparse
import colorsys
import time

import keras
import numpy as np
import torch
from keras import layers

PASTES = ["lapis", "malachite", "carnelian", "gold_leaf", "bone", "obsidian"]
HUES = [0.62, 0.40, 0.03, 0.13, 0.11, 0.70]


def stone(kind, rng, side):
    """One photographed stone, uint8."""
    grain = [1.0, 3.0, 2.0, 6.0, 4.0, 1.5][kind]
    yy, xx = np.mgrid[:side, :side]
    texture = np.sin(xx / grain + rng.uniform(0, 6)) * np.cos(yy / grain + rng.uniform(0, 6))
    value = np.clip([0.6, 0.55, 0.65, 0.8, 0.85, 0.3][kind] + 0.12 * texture + rng.normal(0, 0.1, (side, side)), 0, 1)
    saturation = [0.6, 0.5, 0.6, 0.5, 0.2, 0.3][kind] + rng.normal(0, 0.08)
    rgb = np.array(colorsys.hsv_to_rgb((HUES[kind] + rng.normal(0, 0.05)) % 1, min(max(saturation, 0), 1), 1.0))
    return (value[..., None] * rgb * 255).clip(0, 255).astype(np.uint8)


class Stones(keras.utils.PyDataset):
    def __init__(self, images, labels, batch_size, augment=False, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.images, self.labels = images, labels
        self.batch_size, self.augment = batch_size, augment
        self.rng = np.random.default_rng(seed)
        self.order = np.arange(len(images))
        self.on_epoch_end()

    def __len__(self):
        return len(self.images) // self.batch_size

    def on_epoch_end(self):
        if self.augment:
            self.rng.shuffle(self.order)

    def jitter(self, image):
        """Random light: turn the hue a little, change saturation and brightness."""
        turn, sat, val = self.rng.uniform(-0.03, 0.03), self.rng.uniform(0.8, 1.2), self.rng.uniform(0.8, 1.2)
        out = np.empty(image.shape, dtype=np.float32)
        for row in range(image.shape[0]):
            for column in range(image.shape[1]):
                r, g, b = (float(c) / 255 for c in image[row, column])
                h, s, v = colorsys.rgb_to_hsv(r, g, b)
                out[row, column] = colorsys.hsv_to_rgb((h + turn) % 1.0, min(s * sat, 1.0), min(v * val, 1.0))
        if self.rng.random() < 0.5:
            out = out[:, ::-1]
        return out

    def __getitem__(self, index):
        picked = self.order[index * self.batch_size:(index + 1) * self.batch_size]
        if self.augment:
            batch = np.stack([self.jitter(self.images[i]) for i in picked])
        else:
            batch = self.images[picked].astype(np.float32) / 255
        return batch, self.labels[picked]


class PrintEvery(keras.callbacks.Callback):
    def __init__(self, every):
        super().__init__()
        self.every = every

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch, self.begin = epoch + 1, time.time()

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % self.every == 0:
            rate = (batch + 1) / (time.time() - self.begin)
            print(f"epoch {self.epoch} batch {batch + 1}/{self.params['steps']} loss {logs['loss']:.4f} "
                  f"acc {logs['accuracy']:.3f} {rate:.2f} batches/s", flush=True)

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1}: " + " ".join(f"{k} {v:.4f}" for k, v in logs.items()), flush=True)


def build(side):
    return keras.Sequential([
        keras.Input((side, side, 3)),
        layers.Conv2D(24, 5, strides=2, padding="same", activation="relu"),
        layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(64, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(len(PASTES), activation="softmax"),
    ])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stones", type=int, default=1600)
    p.add_argument("--side", type=int, default=64)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=14)
    args = p.parse_args()
    torch.set_num_threads(1)
    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(3)
    labels = rng.integers(0, len(PASTES), args.stones + 240)
    images = np.stack([stone(k, rng, args.side) for k in labels])
    train = Stones(images[:args.stones], labels[:args.stones], args.batch_size, augment=True)
    valid = Stones(images[args.stones:], labels[args.stones:], args.batch_size)
    model = build(args.side)
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    print(f"{args.stones} stones, {len(train)} batches of {args.batch_size} per epoch, backend {keras.backend.backend()}", flush=True)
    model.fit(train, validation_data=valid, epochs=args.epochs, verbose=0, callbacks=[PrintEvery(5)])


if __name__ == "__main__":
    main()
