"""A classifier of TabNet, with early stopping on a validation set.

Needs: pytorch_tabnet
Loss: mean
"""

import numpy as np
import record  # noqa: F401
from pytorch_tabnet.tab_model import TabNetClassifier

x = np.random.default_rng(0).normal(size=(512, 10)).astype("float32")
y = (x.sum(1) > 0).astype("int64")
classifier = TabNetClassifier(n_d=4, n_a=4, n_steps=2, verbose=1, seed=0, device_name="cpu")
classifier.fit(x[:384], y[:384], eval_set=[(x[384:], y[384:])], max_epochs=5, patience=3, batch_size=64, virtual_batch_size=32)
