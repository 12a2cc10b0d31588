"""Derives the loss of a step from the graphs of its losses, if the gradients of several backwards add up.

The loss of a step is the one that its micro-batches would have had as a single batch:

* Means are averaged, whether the script divides each by their number or not.
* Means that are weighted by their share of the batch add up, and so do sums that are divided by the items of the whole step.
* Undivided sums add up, except for a sum of the terms of one loss.
* Sums that are divided by the items of their own micro-batch are means.
* Means that are multiplied by a count of their own items, a tensor, are averaged over all items of the step: such a script
  divides the gradients by that later.

``read`` looks only at the last few operations of a loss, before backward frees them. The only tensor that it reads is the
number that a loss was divided by, and only on the CPU: on a GPU it would have to wait, so it compares the identity of the
tensor instead. It does not read what a hook of the script has packed (``packed``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gputop.tracking.auto.losses import packed
from gputop.tracking.auto.losses.packed import may_read

SCALINGS = ("DivBackward0", "MulBackward0")
"""The operations that divide a loss by a number, or multiply it by its inverse."""
_PASSED = ("NegBackward0", "CloneBackward0", "ToCopyBackward0", "SqueezeBackward0", "AliasBackward0", "MulBackward1")
"""Operations that neither reduce nor divide a loss; the last one is part of torch's label smoothing."""
_TERMS = ("AddBackward0", "SubBackward0")
"""A loss of several terms: the first one shows how all of them were reduced."""
_WRAPPERS = ("_DDPSinkBackward", "BackwardHookFunctionBackward")
"""Operations that pass on the outputs of a module one by one: DDP with find_unused_parameters, and backward hooks."""
_MEANS = ("MeanBackward0", "MeanBackward1")
_TOTALS = ("SumBackward0", "SumBackward1")
_ASSEMBLED = ("CopySlices", "StackBackward0")
"""Operations that combine the terms of a loss in one tensor. A sum over it is not a sum over samples."""
_REDUCTIONS = ("none", "mean", "sum")
"""torch.nn._reduction.get_enum: the numbers of reductions in loss functions."""
_DEPTH_MAX = 8
_TERMS_DEPTH_MAX = 3
_TOLERANCE = 1e-3
"""Shares of a batch add up to 1 within this."""
_OTHER, _DIVIDED, _MEAN, _FUNCTION = range(4)
_STATIC_ONLY = 1 << 9
"""Python's flag for classes that scripts can define; kept, one would keep the script's variables."""
_MEANS_MAX = 64
_means: dict[float, Reduced] = {}
"""Means by what they were divided by: each is always the same object."""


class _Kinds(dict[type, int]):
    """Of torch's own operations that were met: whether one divides, takes a mean, or is a loss function with a reduction."""

    def __missing__(self, operation: type) -> int:
        if operation.__flags__ & _STATIC_ONLY:
            return _OTHER
        name = operation.__name__
        kind = _DIVIDED if name == SCALINGS[0] else _MEAN if name in _MEANS else _OTHER
        if not kind and hasattr(operation, "_saved_reduction"):
            kind = _FUNCTION
        self[operation] = kind
        return kind


_kinds = _Kinds()

Rule = tuple[float | None, Any, float]
"""What the sum of a step's losses is multiplied by, what it is divided by, and what the script divides each loss by."""


class Reduced(NamedTuple):
    """How a loss was reduced and divided."""

    divisor: float | None
    """What it was last divided by; None if by nothing, or by a number that cannot be read."""
    whole: float | None
    """What it was divided by in total; None if unknown."""
    kind: str
    """"mean", "sum", or "" for neither."""
    items: tuple[int, ...] = ()
    """Of a sum: how many samples, rows or elements it was taken over, whichever the script means."""
    by: Any = None
    """The tensor without dimensions that it was divided by, to be compared with that of another loss."""
    count: Any = None
    """The number of items that a mean was last multiplied by: a number, or the script's tensor on a GPU; None if by none."""


UNREAD: Final = Reduced(None, None, "unread")
"""Represents a loss whose graph was not read: reading it takes longer than everything else that is done with a loss."""


def read(loss: Any) -> Reduced:
    """Return how a loss was reduced and divided. Divisions by 1 are skipped: nested trainers each divide once."""
    try:
        return read_mean(loss) or _read(loss.grad_fn, loss.output_nr)
    except RuntimeError:  # the graph was freed by an earlier backward: this one will say so
        return Reduced(None, None, "")


def read_mean(loss: Any) -> Reduced | None:
    """Return the same of a loss that is a mean, divided by one number or by none; else None. Asks nothing of other classes.

    ``_read`` says the same of such a loss, but takes several times as long, and most losses are such.
    """
    try:
        function, number = loss.grad_fn, 1.0
        kind = _kinds[type(function)]
        if kind == _DIVIDED:
            if packed.used and not may_read(function):
                return None
            other = function._saved_other
            (function, _), (learned, _) = function.next_functions
            if learned is not None or type(other) is not type(loss) or not other.is_cpu or other.dim():
                return None
            number = other.tolist()  # faster than ``item``, see ``values``
            kind = _kinds[type(function)]
        if kind == _MEAN or (kind == _FUNCTION and function._saved_reduction == 1):
            return _means.get(number) or _mean_over(number)
    except RuntimeError:  # see ``read``
        pass
    return None


def is_divided_by(loss: Any, number: float | None) -> bool:
    """Return whether a loss was last divided by this number, or by none if it is 1; False if that is not known at once.

    Says nothing about what was divided. ``read_mean`` does, but takes several times as long.
    """
    try:
        function = loss.grad_fn
        kind = _kinds[type(function)]
        if kind != _DIVIDED:
            return number == 1.0 and (kind == _MEAN or (kind == _FUNCTION and function._saved_reduction == 1))
        if packed.used and not may_read(function):
            return False
        other = function._saved_other
        return type(other) is type(loss) and other.is_cpu and not other.requires_grad and other.tolist() == number
    except RuntimeError:  # see ``read``
        return False


def _mean_over(number: Any) -> Reduced | None:
    if not isinstance(number, int | float) or not math.isfinite(number) or not number:
        return None
    if len(_means) >= _MEANS_MAX:
        _means.clear()
    found = _means[number] = Reduced(None if number == 1.0 else float(number), float(number), "mean")
    return found


def _read(function: Any, output: int) -> Reduced:
    divisor: float | None = None
    whole: float | None = 1.0
    by = count = None
    in_term = False
    for _ in range(_DEPTH_MAX):
        name = type(function).__name__
        source = output if name in _WRAPPERS else 0
        if name in SCALINGS:
            if not may_read(function):
                whole = None
                break
            other = function._saved_other
            if other is None and name == SCALINGS[1]:  # the loss comes second, as in ``items * loss``
                other, source = function._saved_self, 1
            if other is None or other.dim() != 0 or other.requires_grad:
                break
            if name == SCALINGS[1] and whole == 1.0 and by is None and not in_term and count is None and _is_count(other):
                count = other.item() if other.is_cpu else other
            elif other.is_cpu and whole is not None:
                number = other.item()
                if not math.isfinite(number) or not number:
                    break
                number = number if name == SCALINGS[0] else round(1.0 / number, 6)
                if number != 1.0:
                    if divisor is None and by is None and not in_term:
                        divisor = number
                    whole *= number
                    by = other if by is None else by
            else:
                whole, by = None, (other if by is None else by)
        elif name in _MEANS:
            return Reduced(divisor, whole, "mean", by=by, count=count)
        elif name in _TOTALS and _sums_terms(function):
            break
        elif name in _TOTALS:
            return Reduced(divisor, whole, "sum", _prefixes(function._saved_self_sym_sizes), by, count)
        elif (reduction := getattr(function, "_saved_reduction", None)) is not None:
            kind = _REDUCTIONS[reduction] if reduction in (1, 2) else ""
            return Reduced(divisor, whole, kind, _rows_of_input(function) if kind == "sum" else (), by, count)
        elif name in _TERMS:
            in_term = True  # a factor of one of several terms is its weight
        elif name not in (*_PASSED, *_WRAPPERS):
            break
        if len(function.next_functions) <= source or function.next_functions[source][0] is None:
            break
        function, output = function.next_functions[source]
    return Reduced(divisor, whole, "", by=by, count=count)


def _is_count(other: Any) -> bool:
    """Return whether a loss was multiplied by an integer tensor, and not by one of the script's numbers: that is a weight."""
    if other.is_floating_point() or other.is_complex() or str(other.dtype) == "torch.bool":  # a flag switches a loss off
        return False
    # Python's numbers arrive as tensors on the CPU, and take the type of any other integer tensor.
    return not other.is_cpu or (other + other.new_zeros(()).char()).dtype is other.dtype


def _sums_terms(function: Any) -> bool:
    """Return whether a sum is over terms that were put side by side."""
    for _ in range(_TERMS_DEPTH_MAX):
        function = next((below for below, _ in function.next_functions if below is not None), None)
        name = type(function).__name__
        if name not in SCALINGS and name not in _PASSED:
            return name in _ASSEMBLED
    return False


def step_loss(total: Any, parts: Sequence[Reduced], factor: float, last: object) -> tuple[Any, float]:
    """Return the loss of a step, and what the script divides each of its losses by: the usual number of backwards.

    Args:
        total: the sum of the values of the losses; a number or a tensor.
        parts: how each of them was reduced.
        factor: the usual number of backwards in a step, if the script divides by it; 1.0 if it is not known to.
        last: what ``divided_by`` returned for the step before.
    """
    times, over, factor = rule(parts, factor, last)
    if times is not None:
        total = total * times
    return (total if over is None else total / over), factor


def rule(parts: Sequence[Reduced], factor: float, last: object) -> Rule:
    """Return how ``step_loss`` arrives at the loss of a step. Does not depend on ``last`` if there is a mean."""
    count = len(parts)
    known = next((part for part in parts if part is not UNREAD), None)
    if known is None:
        return None, count, factor
    # The first loss of a step is not read before its line is known to accumulate; it has the same form as the others.
    parts = [known if part is UNREAD else part for part in parts]
    counts = [part.count for part in parts if part.count is not None and (part.kind != "sum" or part.whole != 1.0)]
    if len(counts) == count:
        items = sum(counts)
        return None, (None if isinstance(items, int) and not items else items), factor
    divisor = known.divisor if all(part.divisor == known.divisor for part in parts) else None
    if count > 1 and divisor == count:
        return None, None, divisor
    if divisor is not None and factor != 1.0 and divisor == factor:
        # Fewer than usual, for example at the end of an epoch.
        return factor / count, None, factor
    if count == 1 or _add_up(parts, last):
        return None, None, factor
    return None, count, factor


def divided_by(parts: Sequence[Reduced]) -> object:
    """Return what all losses of a step were divided by, a number or a tensor; None if they differ or are not known."""
    known = [part for part in parts if part is not UNREAD]
    if not known:
        return None
    first = known[0]
    if first.whole is not None and all(part.whole == first.whole for part in known):
        return first.whole
    return first.by if all(part.by is first.by for part in known) else None


def _add_up(parts: Sequence[Reduced], last: object) -> bool:
    """Return whether the losses are parts of the loss of the whole step, rather than a loss of each micro-batch."""
    if any(part.kind != "sum" for part in parts):
        shares = [1.0 / part.divisor for part in parts if part.divisor is not None]
        return len(shares) == len(parts) and abs(sum(shares) - 1.0) < _TOLERANCE
    if all(part.whole == 1.0 for part in parts):
        return True
    common = divided_by(parts)
    if common is None:
        return False
    if isinstance(common, float):
        if all(common in part.items for part in parts):
            return False
        if any(sum(column) == common for column in zip(*(part.items for part in parts), strict=False)):
            return True
        # Masked items are not counted in the shapes. No micro-batch has more items than its shape says.
        if common > max(max(part.items, default=0) for part in parts):
            return True
    # The number of a micro-batch's own items differs from one to the next, unless it is always the same.
    return common is parts[0].by or all(part.by is parts[0].by for part in parts) or _differs(common, last)


def _differs(now: object, last: object) -> bool:
    # Never compare tensors by value: on a GPU that waits.
    return isinstance(now, float) and isinstance(last, float) and now != last


def _prefixes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the number of samples, of rows of all samples, and so on up to the number of elements."""
    found: list[int] = []
    for size in sizes:
        found.append(int(size) * (found[-1] if found else 1))
    return tuple(found) or (1,)


def _rows_of_input(function: Any) -> tuple[int, ...]:
    """Return the same for a loss function's input; the tensor itself may have been offloaded until backward needs it."""
    try:
        source, index = function.next_functions[0]
        shape = list(source._input_metadata[index].shape)
        if type(function).__name__.startswith("NllLoss"):
            del shape[1]  # the classes
        return _prefixes(shape)
    except (AttributeError, IndexError, TypeError):
        return ()
