"""The model that a training's facts describe: the outermost module with the most trained parameters, and a DDP in it.

It keeps no module alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from gputop.tracking import parts
from gputop.tracking.auto.readings.ddp import ddp_fact, is_ddp
from gputop.tracking.auto.readings.parallel import Place, place_of
from gputop.tracking.describe import describe_model
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.unseen import unseen


class DescribedModel:
    """The described model of one training at a time."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.place: Place | None = None
        """The mesh of the ranks, and which of them are given the same samples; None before it was searched for."""
        self.forget()

    def forget(self) -> None:
        """Forget the model of an earlier run or training; the script may keep it."""
        self._largest = 0
        self._root: weakref.ref[Any] | None = None
        self.wrapper: weakref.ref[Any] | None = None
        """The DDP that was found last, or took its place."""
        self.wrapped_parameters: set[int] = set()
        """The ids of the parameters of a DDP."""

    def take(self, roots: Sequence[Any], own: set[int], meshes: Sequence[Any]) -> None:
        """Choose among further outermost modules, of the weights with the ids ``own``."""
        for root in roots:
            self._find_ddp(root)
        with unseen(self._torch):
            self._choose_root(roots, own)
            self._find_place(meshes)

    def is_unknown(self) -> bool:
        """Return whether no model was found yet."""
        return self._root is None

    def forget_dead(self) -> None:
        """Forget a model that is gone: it belongs to an earlier training or phase."""
        if self._root is not None and self._root() is None:
            self._root, self._largest = None, 0

    def called(self, root: Any) -> None:
        """Note a training call of an outermost wrapper. Of several around one module, the last one that was called counts."""
        if self._root is not None and self.wrapper is not None and self._root() is root and self.wrapper() is root:
            return
        wrapper = parts.kept(root, "_orig_mod", root)
        if self._takes_place_of(self._root, wrapper):
            self._root = weakref.ref(root)
        if is_ddp(wrapper) and (self.wrapper is None or self._takes_place_of(self.wrapper, wrapper)):
            self._take_ddp(wrapper)

    @staticmethod
    def _takes_place_of(reference: weakref.ref[Any] | None, wrapper: Any) -> bool:
        """Return whether a wrapper is around the module that the one referred to is around, or is; or whether that is gone."""
        if reference is None:
            return False
        known = reference()
        if known is None:
            return True
        known, inner = parts.kept(known, "_orig_mod", known), parts.kept(wrapper, "module")
        return known is not wrapper and (known is inner or parts.kept(known, "module") is inner)

    def fact(self) -> dict[str, Any] | None:
        """Return the fact ``model`` as it is now; None without a model."""
        root = self._root() if self._root is not None else None
        return None if root is None else describe_model(root, [] if self.place is None else list(self.place.names))

    def ddp_fact(self) -> dict[str, Any] | None:
        """Return the fact ``ddp``; None if no module is wrapped in DDP."""
        module = self.wrapper() if self.wrapper is not None else None
        return None if module is None else ddp_fact(module)

    def _find_ddp(self, root: Any) -> None:
        found = next((module for module in parts.modules(root) if is_ddp(module)), None)
        if found is not None:
            self._take_ddp(found)

    def _take_ddp(self, found: Any) -> None:
        self.wrapper = weakref.ref(found)
        self.wrapped_parameters |= {id(item) for item in parts.parameters(found)}

    def _choose_root(self, roots: Iterable[Any], own: set[int]) -> None:
        sized = [(sum(int(item.numel()) for item in parts.parameters(root) if id(item) in own), root) for root in roots]
        if not sized:
            return
        self.forget_dead()
        size, root = max(sized, key=lambda pair: pair[0])
        if size > self._largest:
            self._largest = size
            self._root = weakref.ref(root)

    def _find_place(self, meshes: Sequence[Any]) -> None:
        try:
            self.place = place_of(self._torch, meshes, self._root() if self._root is not None else None)
        except Exception as error:  # noqa: BLE001 - meshes and groups of any version: then nobody knows which ranks share samples
            let_through(error)
            self.place = Place()
