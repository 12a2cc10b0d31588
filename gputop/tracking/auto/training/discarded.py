"""Finds backwards whose gradients the script discarded, because they were not finite or too large: they led to no step.

Such a script resets its gradients and takes the next batch. A script that copies the gradients of each of its losses and
resets them before the next one does the same, but in every step, also in the first ones.
"""

from __future__ import annotations

from typing import Any

from gputop.tracking.manual_steps import is_kept, keeps_parts, may_read, sorted_leaves


def are_discarded(optimizer: Any, loss: Any) -> bool:
    """Return whether the optimizer's weights on which a loss depends have no gradients of earlier backwards any more.

    False if that cannot be known. May wait for a GPU: ask only about a step that is not like the ones before it.
    """
    own = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    weights = [weight for weight in (known() for known in sorted_leaves(loss)) if weight is not None and id(weight) in own]
    return bool(weights) and not any(keeps_parts(weight) or _may_be_left(weight.grad) for weight in weights)


def _may_be_left(gradient: Any) -> bool:
    return gradient is not None and (not may_read(gradient) or is_kept(gradient))
