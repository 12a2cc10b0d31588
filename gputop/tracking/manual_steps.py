"""Finds the steps of a training that updates its weights itself, without an optimizer: ``p.data -= lr * p.grad``.

Whatever else such a script does, it resets its gradients after each step. So a step has ended once a line runs backward again
and the gradient of one of its weights differs from what the last backward left. Backwards without a reset between them are
gradient accumulation, also if the script clips the gradients after each of them: then the weight is as it was, and its gradient
not zero. Reads a few values of one weight and gradient on the CPU; on a GPU only whether they were replaced or written to, and,
as long as it is not certain that there is no optimizer, a gradient that was written to although its weight was not.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from time import monotonic_ns
from typing import Any

NEEDED = 20
"""After this many steps of one line without an optimizer's step, and a change of the weights, there is no optimizer. Fewer may
be a check before the training."""
HELD_MOST = 4096
"""After this many, there is none even if the weights are as they were. A script that clips the gradient of each sample resets
it as often as its batch has samples, and changes no weight meanwhile."""
_LEAVES_MAX = 8
_NODES_MAX = 400
"""How much of a loss's graph is searched for weights."""
_VALUES = 1024
"""How many values of a gradient are compared, to detect a reset that leaves no other trace: ``p.grad.data.zero_()``."""
_ROUNDING = 1e-5
"""The cosine of the angle between a gradient of 16 bits and a multiple of it may differ from 1 by this."""
_KEPT = "summed_grad"
"""Where a weight keeps the gradients of a step's earlier parts, with Opacus: what is reset is then no step's gradient."""

_deciding = False


def is_deciding() -> bool:
    """Return whether steps are held back until it is certain that they are steps."""
    return _deciding


class ManualSteps:
    """Steps without an optimizer. The rest of tracking treats it as an optimizer without settings."""

    kind = None
    """There is no class of optimizer to name."""

    def __init__(self) -> None:
        self.site: object = None
        """The line that runs backward in each step."""
        self._leaves: list[weakref.ref[Any]] = []
        self._state: tuple[Any, ...] | None = None
        """What the last backward left of a weight's gradient."""
        self._weight: tuple[Any, ...] | None = None
        """The weight as the last backward found it."""
        self._was_reset = False
        """Whether the gradient was reset before a backward of another line."""
        self._ended = 0
        """How many steps have ended."""
        self._began: list[Any] = []
        """The values of the weights when the first step was held back."""
        self.held: list[tuple[int, list[Any]]] = []
        """When the first steps ended (monotonic, ns), and their losses, until it is certain that they are steps."""
        self.earlier: list[tuple[Any, Any, list[Any]]] = []
        """Of each line in each of these steps: the sum of its losses, and how they were reduced."""
        self._left: list[tuple[weakref.ref[Any], Any]] = []
        """Some values of the gradients that the last backward left, once steps are held back."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Return one group with the weights that are known."""
        return [{"params": self._alive()}]

    @property
    def is_over(self) -> bool:
        """Whether the weights are gone, or their gradients were reset after the line's last backward."""
        return not self._alive() or self._was_reset or self._is_reset()

    def ended_before(self, site: object, loss: Any) -> bool:
        """Return whether a step ended before this backward, which the line ``site`` runs on ``loss``."""
        self._was_reset = self._was_reset or self._is_reset()
        if self.site is not None and site is not self.site:
            return False
        ended, self._was_reset = self._was_reset, False
        self._ended += ended
        if not self._alive():
            # New weights, or none yet: those of inputs, which an attack on a model differentiates by, are gone by now.
            self._leaves = sorted_leaves(loss)
        self.site = site
        return ended

    @property
    def is_certain(self) -> bool:
        """Whether the step that has ended now, and those that are held back, are certainly steps."""
        count = len(self.held) + 1
        # Reading the weights waits for a GPU, so not after every backward.
        return count % NEEDED == 0 and (count >= HELD_MOST or sums_of(self._alive()) != self._began)

    @property
    def keeps_gradients(self) -> bool | None:
        """Whether the gradients are what the last backward left, scaled or clipped or not: no earlier backward has a part in
        them. None if that cannot be known.

        May wait for a GPU, once.
        """
        kept = None
        for known, left in self._left:
            weight = known()
            if weight is None or (weight.grad is None) != (left is None):
                return False
            if left is not None:
                if not may_read(weight.grad):
                    return None
                same = _is_made_of(left, _some_values(weight.grad))
                if same is False:
                    return False
                kept = kept or same
        return kept

    def hold(self, losses: list[Any], earlier: list[tuple[Any, Any, list[Any]]]) -> None:
        """Hold back the losses of a step that has ended now, and what each of its lines added to ``earlier``."""
        global _deciding
        _deciding = True
        if not self.held:
            self._began = sums_of(self._alive())
        self.held.append((monotonic_ns(), losses))
        self.earlier += earlier

    def release(self) -> list[tuple[int, list[Any]]]:
        """Return what was held back, now that it is decided."""
        global _deciding
        _deciding = False
        held, self.held, self.earlier, self._began, self._left = self.held, [], [], [], []
        return held

    def after_backward(self) -> None:
        """Remember the gradient that a backward has left."""
        weight = self._first()
        self._state = None if weight is None or weight.grad is None else tensor_state(weight.grad)
        self._weight = None if weight is None else tensor_state(weight)
        if self.held:
            weights = self._alive()
            readable = all(item.grad is None or may_read(item.grad) for item in weights)
            self._left = [(weakref.ref(item), _copied(item.grad)) for item in weights] if readable else []

    def _is_reset(self) -> bool:
        weight = self._first()
        if self._state is None or weight is None:
            return False
        gradient = weight.grad
        state = None if gradient is None else tensor_state(gradient)
        if state == self._state or any(map(keeps_parts, self._alive())):
            return False
        if state is None or state[0] != self._state[0] or self._ended >= NEEDED:
            return True
        return tensor_state(weight) != self._weight or not is_kept(gradient)

    def _first(self) -> Any:
        return next(iter(self._alive()), None)

    def _alive(self) -> list[Any]:
        return [leaf for leaf in (known() for known in self._leaves) if leaf is not None]


def tensor_state(tensor: Any) -> tuple[Any, ...]:
    """Return what changes when a tensor is replaced or written to: identity, version and, on the CPU, a sum of values."""
    values = tensor.detach().reshape(-1)[:_VALUES].sum().item() if tensor.is_cpu and has_own_values(tensor) else None
    return id(tensor), tensor._version, repr(values)


def _some_values(gradient: Any) -> Any:
    return gradient.detach().reshape(-1)[:_VALUES].float()


def _copied(gradient: Any) -> Any:
    return None if gradient is None else _some_values(gradient).clone()


def _is_made_of(left: Any, now: Any) -> bool | None:
    """Return whether a gradient is a multiple of another, or one whose values were limited (``clip_grad_value_``).

    None if too few values are left to tell.
    """
    if left.shape != now.shape:
        return False
    same = _have_one_direction(left, now)
    if same is not False or len(now) < 2:
        return same
    limit = now.abs().max()
    free = now.abs() < limit
    if now[free].any() and bool((now == left.clamp(-limit, limit)).all()):
        return True
    if bool((left.sign() != now.sign())[~free].any()):
        return False
    same = _have_one_direction(left[free], now[free])
    scale = now[free].norm() / left[free].norm()
    return same and bool((left[~free].abs() * scale >= limit * (1.0 - _ROUNDING)).all())


def _have_one_direction(left: Any, now: Any) -> bool | None:
    """Return whether one gradient is a multiple of the other; None if a single value, or only zeros, cannot tell."""
    product, most = float(left @ now), float(left.norm() * now.norm())
    if len(left) < 2 or not most:
        return None if bool(left.any()) == bool(now.any()) else False
    return product > most * (1.0 - _ROUNDING)


def sums_of(weights: list[Any]) -> list[Any]:
    """Return a sum of values of each weight, as text; where it may not be read, an object that is equal to no other."""
    return [repr(item.detach().reshape(-1)[:_VALUES].sum().item()) if may_read(item) else object() for item in weights]


def is_kept(gradient: Any) -> bool:
    """Return whether a gradient that was written to is not zero; False where it may not be read."""
    return may_read(gradient) and bool(gradient.detach().any().item())


def may_read(gradient: Any) -> bool:
    """Return whether reading a gradient's values does no harm.

    On a GPU that waits, which would ruin a CUDA graph that is being captured, and which a script may forbid or report.
    """
    if not has_own_values(gradient):
        return False
    if not gradient.is_cuda:
        return True
    cuda = sys.modules["torch"].cuda
    return not (cuda.is_current_stream_capturing() or cuda.get_sync_debug_mode())


def keeps_parts(weight: Any) -> bool:
    """Return whether a weight keeps the gradients of a step's earlier parts elsewhere."""
    return getattr(weight, _KEPT, None) is not None


def has_own_values(tensor: Any) -> bool:
    """Return whether a tensor holds all of its values in its own memory: reading a DTensor is a collective operation."""
    return type(tensor).__name__ in ("Tensor", "Parameter") and str(tensor.layout) == "torch.strided"


def sorted_leaves(loss: Any) -> list[weakref.ref[Any]]:
    """Return weights that a loss depends on, those with the fewest elements first: they change as a whole."""
    found = sorted(_leaves(loss), key=lambda leaf: int(leaf.numel()))
    return [weakref.ref(leaf) for leaf in found]


def _leaves(loss: Any) -> Iterator[Any]:
    queue: list[Any] = [loss.grad_fn]
    seen: set[Any] = set()
    count = 0
    while queue and len(seen) < _NODES_MAX and count < _LEAVES_MAX:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            count += 1
            yield leaf
        queue.extend(item for item, _ in node.next_functions)
