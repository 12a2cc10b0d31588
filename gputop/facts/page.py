"""Generates docs/facts.md from the schema. Pure. ``python -m gputop.facts.page`` prints it (``make docs``)."""

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
"""The lines of the page's paragraphs have at most this many characters."""
_HEAD = """\
# What a rank says about itself

<!-- Written by `make docs` from gputop/facts: change the schema, not this page. -->

Besides metrics, a journal contains *facts*: JSON values, each under a name. The last value that a rank wrote under a name
counts (`Rank.facts` in a snapshot). gputop's automatic tracking (`gputop run`, `import gputop`, `gputop.watch`) writes the
facts below; a script can write its own with `run.fact(name, value)`. Readers do not trust them: each key may be missing, null,
or of another type.

A fact is written when it changes. Facts that count something are written at most every 2 seconds, after steps that are the
same on all ranks (multiples of a power of two). "Steps" are optimizer steps; if a script updates its weights itself, a step
ends where it resets the gradients. Calls and gradients are counted from the second step on, because the first one shows which
modules are trained.

In the tables, *or null* means that tracking may write null, and *may be missing* that it may omit the key. Values whose names
end in `_s` or `seconds` are in seconds, and in `_bytes` or `bytes` in bytes. An integer is 0 or more.
"""
_TAIL = """\
## Metrics

Automatic tracking writes one record of metrics for each step. Times are in seconds by the CPU's clock.

| metric | meaning |
|---|---|
| `loss` | The loss. Of several losses `loss/<variable>`; `loss/0`, `loss/1` where optimizers take turns on one line. |
| `lr` | The learning rate. |
| `step_s` | Duration of the step. |
| `pace_s` | On a GPU, the mean duration of a step over the last 5 s. There, `step_s` is the time in which the host queued the \
step, or waited for those before it. |
| `samples_per_s`, `tokens_per_s` | Throughput; on a GPU, by `pace_s`. |
| `epoch` | The epoch. |
| `training` | The number of the training that begins at this step, from a process's second training on: 2, 3, … |
| `phase/data`, `phase/forward`, `phase/backward`, `phase/optimizer`, `phase/evaluation` | Time in each part of the step. |
| `first_batch_s` | Time to start another iteration over the training's loader and get its first batch, also after an \
evaluation. |
| `checkpoint_s` | Time to write a checkpoint. |
| `eval_loss`, `val_loss`, `grad_norm` and so on | What the Trainer of Transformers, Lightning or Keras logs by itself, under \
its own names. |
| `gc_s` | Time of garbage collection, if it took 1 ms or more. |
| `memory_peak_bytes`, `memory_allocated_bytes` | Memory on a CUDA device, once a second. |
| `cuda/step_s`, `cuda/forward_s`, `cuda/backward_s`, `cuda/optimizer_s` | Times on the GPU, from CUDA events. |

Of steps that take less than 100 ms, about 10 per second are recorded in full, at least one in 128, and the same ones on all
ranks. The others have only `loss`, `step_s`, `phase/data` and anything unusual, such as `phase/evaluation`, at a quarter of the
cost. The facts `wrapper_calls` and `gradients` count the steps that were recorded in full. Every step is recorded in full under
nn.DataParallel, with an optimizer that does not step in each iteration, and with optimizers that step inside a backward.

In a run that the script opened itself, the script's values keep their names and steps. The automatic values are numbered by
optimizer steps there, from 0 on, and `loss`, `lr` and `epoch` are called `auto/loss`, `auto/lr` and `auto/epoch`, so that they
never mix with what the script logs under these names. Any other name belongs to the script once the script logs it.
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
    """Return what a key means, in one line; for a record, this is its docstring."""
    text = key.meaning or " ".join(((key.record.__doc__ if key.record is not None else "") or "").split())
    names = f" Names: {', '.join(f'`{name}`' for name in FRAMEWORKS)}." if key is Facts.frameworks else ""
    return text + names


if __name__ == "__main__":
    sys.stdout.write(markdown())
