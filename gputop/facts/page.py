"""docs/facts.md, written from the schema. Pure. ``python -m gputop.facts.page`` prints it (``make docs``)."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from gputop.facts.record import Key, Record
from gputop.facts.table import Facts
from gputop.frameworks import FRAMEWORKS

PAGE = "docs/facts.md"
WIDTH = 120
_HEAD = """\
# What a rank says of itself

<!-- Written by `make docs` from gputop/facts: change the schema, not this page. -->

Beside metrics, a journal holds *facts*: JSON values under a name. The last value that a rank wrote under a name counts
(`Rank.facts` in a snapshot). gputop's automatic tracking (`gputop run`, `import gputop`, `gputop.watch`) writes the facts
below; a script can write its own with `run.fact(name, value)`. Readers do not trust them: each key may be missing, null, or of
another type.

A fact is written when it changes. Facts that count something are written at most every 2 seconds, after steps that are the
same on all ranks (multiples of a power of two). "Steps" are optimizer steps; where a script changes its weights itself, a step
ends where it resets their gradients. Calls and gradients are counted from the second step on, because the first one tells which
modules are trained.

In the tables, *or null* means that tracking may write null, and *may be missing* that it may leave the key out. Names that end
in `_s` and `seconds` are in seconds, those that end in `_bytes` and `bytes` in bytes. An integer is 0 or more.
"""
_TAIL = """\
## Metrics

Automatic tracking writes one record of metrics for each step. Times are in seconds on the CPU's clock.

| metric | meaning |
|---|---|
| `loss` | The loss. Of several losses `loss/<variable>`; `loss/0`, `loss/1` where optimizers take turns on one line. |
| `lr` | The learning rate. |
| `step_s` | Time of the step. |
| `samples_per_s`, `tokens_per_s` | Throughput. |
| `epoch` | The epoch. |
| `training` | From the second training of a process on, which one begins at this step: 2, 3, … |
| `phase/data`, `phase/forward`, `phase/backward`, `phase/optimizer`, `phase/evaluation` | Time in each part of the step. |
| `first_batch_s` | Time to begin a later iteration over the training's loader and to get its first batch, also after an \
evaluation. |
| `checkpoint_s` | Time to write a checkpoint. |
| `eval_loss`, `val_loss`, `grad_norm` and so on | What the Trainer of Transformers, Lightning or Keras logs by itself, under \
its names. |
| `gc_s` | Time of garbage collection, where it took 1 ms or more. |
| `memory_peak_bytes`, `memory_allocated_bytes` | Memory on a CUDA device, once a second. |
| `cuda/step_s`, `cuda/forward_s`, `cuda/backward_s`, `cuda/optimizer_s` | Times on the GPU, from CUDA events. |

Of steps that take less than 50 ms, about 20 a second are looked at whole, one in 128 at least, and the same ones on all ranks.
The others have `loss`, `step_s` and `phase/data`, and what is out of the ordinary, such as `phase/evaluation`, for a quarter of
the cost. The facts `wrapper_calls` and `gradients` count the steps that were looked at. Every step is looked at whole where
there is more than one optimizer or loss, where gradients are accumulated or scaled, where the loss is on a GPU, and under
DataParallel.

In a run that the script opened itself, its values keep their names and its steps. The automatic ones have the numbers of
optimizer steps there, from 0 on, and `loss`, `lr` and `epoch` are called `auto/loss`, `auto/lr` and `auto/epoch`, so that they
never mix with what the script logs under these names. Another name that the script logs is its own from then on.
"""


def markdown() -> str:
    """Return docs/facts.md."""
    plain = [key for key in Facts.keys.values() if key.record is None]
    sections = [_section(key, key.record) for key in Facts.keys.values() if key.record is not None]
    return "\n".join([_HEAD, "## Facts without keys\n", _table("fact", map(_row, plain)), *sections, _TAIL])


def _section(key: Key[Any], record: type[Record]) -> str:
    shape = "" if key.kind == "object" else f" {key.kind[:1].upper()}{key.kind[1:]}."
    more = f" Other keys: {record.more[:1].lower()}{record.more[1:]}" if record.more else ""
    text = f"{_meaning(key)}{shape}{' May be null.' if key.null else ''}{more}"
    return f"## {key.name}\n\n{textwrap.fill(text, WIDTH)}\n" + (f"\n{_table('key', _rows(record))}" if record.keys else "")


def _table(what: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {what} | type | meaning |", "|---|---|---|", *rows]) + "\n"


def _rows(record: type[Record], within: str = "") -> Iterator[str]:
    for key in record.keys.values():
        yield _row(key, within, ", may be missing" if key.optional else "")
        if key.record is not None:
            yield from _rows(key.record, f"{within}{key.name}.")


def _row(key: Key[Any], within: str = "", absent: str = "") -> str:
    return f"| `{within}{key.name}` | {key.kind}{' or null' if key.null else ''}{absent} | {_meaning(key)} |"


def _meaning(key: Key[Any]) -> str:
    """Return what a key means, in one line; of a record, what its docstring says."""
    text = key.meaning or " ".join(((key.record.__doc__ if key.record is not None else "") or "").split())
    names = f" Names: {', '.join(f'`{name}`' for name in FRAMEWORKS)}." if key is Facts.frameworks else ""
    return text + names


if __name__ == "__main__":
    sys.stdout.write(markdown())
