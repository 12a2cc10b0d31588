"""The migration note's examples run as they stand there."""

from __future__ import annotations

import re

from tests import REPOSITORY
from tests.tracking.kit import Home, home, read_all

assert home

NOTE = (REPOSITORY / "docs" / "migrating.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", NOTE, re.DOTALL)
GIVEN = """
class Model:
    def parameters(self): return []
model, loss, acc, lr, best, step, epoch = Model(), 0.5, 0.9, 0.1, 0.4, 7, 1
"""


def test_the_examples_for_wandb_tensorboard_and_print_run(home: Home) -> None:
    assert len(EXAMPLES) == 4
    for example in EXAMPLES:
        code, _, err = home.run("import gputop\n" + GIVEN + example.replace("range(1000)", "range(3)"))
        assert (code, err) == (0, ""), example
    wandb, tensorboard, plain = sorted((read_all(path).series for path in home.archives()), key=lambda series: -len(series))[:3]
    found = {tuple(sorted(series)) for series in (wandb, tensorboard, plain)}
    assert found == {("lr", "train/loss"), ("train/acc", "train/loss"), ("loss",)}


def test_the_adapters_that_it_names_exist() -> None:
    for module, name in re.findall(r"gputop\.adapters\.(\w+)\.(\w+)\(", NOTE):
        source = (REPOSITORY / "gputop" / "adapters" / f"{module}.py").read_text()
        assert f"class {name}(" in source
