"""A learner of fastai on a table, whose optimizer is not torch's.

Needs: fastai
Loss: each
"""

import numpy as np
import pandas as pd
import record  # noqa: F401
from fastai.tabular.all import (
    Categorify,
    CategoryBlock,
    FillMissing,
    Normalize,
    TabularDataLoaders,
    accuracy,
    set_seed,
    tabular_learner,
)

set_seed(0, True)
chance = np.random.default_rng(0)
table = pd.DataFrame({"a": chance.normal(size=640), "b": chance.normal(size=640), "c": chance.choice(list("xyz"), 640)})
table["y"] = (table.a + table.b > 0).map({True: "p", False: "n"})
loaders = TabularDataLoaders.from_df(
    table.astype({"c": object}),
    procs=[Categorify, FillMissing, Normalize],
    cat_names=["c"],
    cont_names=["a", "b"],
    y_names="y",
    y_block=CategoryBlock(),
    bs=32,
    valid_idx=list(range(500, 640)),
    num_workers=0,
)
learner = tabular_learner(loaders, metrics=accuracy, layers=[16, 8], n_out=2)
learner.fit_one_cycle(3, 1e-2)
learner.fine_tune(1)
