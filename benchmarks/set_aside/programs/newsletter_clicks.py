"""Click rate of the newsletter's links. Keras 3 on torch; logs of the last weeks are replayed as a stream."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(2024)
FIELDS = {"reader": 4000, "link": 300, "weekday": 7, "hour": 24, "client": 12}


class ClickLog(keras.utils.PyDataset):
    """Most of a click is chance: the best possible log loss is not far below that of the base rate."""

    def __init__(self, batches, batch_size, seed, **kw):
        super().__init__(**kw)
        self.batches, self.bs = batches, batch_size
        self.rng = np.random.default_rng(seed)
        truth = np.random.default_rng(0)
        self.effect = {f: truth.normal(0, 0.35, n) for f, n in FIELDS.items()}

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        x = {f: self.rng.integers(0, n, self.bs) for f, n in FIELDS.items()}
        logit = -1.6 + sum(self.effect[f][x[f]] for f in FIELDS)
        y = self.rng.random(self.bs) < 1 / (1 + np.exp(-logit))
        return {f: v.astype("int32") for f, v in x.items()}, y.astype("float32")[:, None]


def build():
    inputs = {f: layers.Input((), dtype="int32", name=f) for f in FIELDS}
    emb = [layers.Embedding(n, 16, name=f"emb_{f}")(inputs[f]) for f, n in FIELDS.items()]
    first = [layers.Embedding(n, 1, name=f"w_{f}")(inputs[f]) for f, n in FIELDS.items()]
    h = layers.Concatenate()(emb)
    for width in (512, 256):
        h = layers.Dense(width, activation="relu")(h)
        h = layers.Dropout(0.1)(h)
    logit = layers.Add()([*first, layers.Dense(1, bias_initializer=keras.initializers.Constant(-1.4))(h)])
    return keras.Model(inputs, ops.sigmoid(logit))


model = build()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=[keras.metrics.AUC(num_thresholds=100, name="auc")]
)
print("parameters:", model.count_params(), flush=True)
model.fit(
    ClickLog(100, 2048, seed=1),
    validation_data=ClickLog(20, 2048, seed=2),
    epochs=300,
    verbose=2,
    callbacks=[keras.callbacks.ReduceLROnPlateau(patience=6, factor=0.5, min_lr=1e-5, verbose=1)],
)
