"""Finds the steps of a training that updates its weights itself, without an optimizer: ``p.data -= lr * p.grad``.

Whatever else such a script does, it resets its gradients after each step. So a step has ended once a line runs backward again
and the gradient of one of its weights differs from what the last backward left. Backwards without a reset between them are
gradient accumulation. Reads a few values of one gradient on the CPU, and of one on a GPU only whether it was replaced or
written to.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from time import monotonic_ns
from typing import Any

NEEDED = 20
"""After this many steps of one line without an optimizer's step, there is no optimizer. Fewer may be a check before the
training."""
_LEAVES_MAX = 8
_NODES_MAX = 400
"""How much of a loss's graph is searched for weights."""
_VALUES = 1024
"""How many values of a gradient are compared, to detect a reset that leaves no other trace: ``p.grad.data.zero_()``."""
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
        self._was_reset = False
        """Whether the gradient was reset before a backward of another line."""
        self.held: list[tuple[int, list[Any]]] = []
        """When the first steps ended (monotonic, ns), and their losses, until it is certain that they are steps."""

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
        if not self._alive():
            # New weights, or none yet: those of inputs, which an attack on a model differentiates by, are gone by now.
            self._leaves = sorted_leaves(loss)
        self.site = site
        return ended

    def hold(self, losses: list[Any]) -> None:
        """Hold back the losses of a step that has ended now."""
        global _deciding
        _deciding = True
        self.held.append((monotonic_ns(), losses))

    def release(self) -> list[tuple[int, list[Any]]]:
        """Return what was held back, now that it is decided."""
        global _deciding
        _deciding = False
        held, self.held = self.held, []
        return held

    def after_backward(self) -> None:
        """Remember the gradient that a backward has left."""
        self._state = self._gradient_state()

    def _is_reset(self) -> bool:
        if self._state is None or not self._alive() or self._gradient_state() == self._state:
            return False
        return not any(getattr(leaf, _KEPT, None) is not None for leaf in self._alive())

    def _alive(self) -> list[Any]:
        return [leaf for leaf in (known() for known in self._leaves) if leaf is not None]

    def _gradient_state(self) -> tuple[Any, ...] | None:
        leaf = next(iter(self._alive()), None)
        gradient = None if leaf is None else leaf.grad
        if gradient is None:
            return None
        plain = type(gradient).__name__ == "Tensor" and gradient.is_cpu and not gradient.is_sparse
        values = gradient.detach().reshape(-1)[:_VALUES].sum().item() if plain else None  # of a DTensor, a collective operation
        return id(gradient), gradient._version, repr(values)


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
