"""Finds the loss: the value that backward ran on, by call site, until the optimizer steps.

A site is a line of the user's code. Several backwards from one site within one optimizer step are gradient accumulation;
``reduction`` says what loss they amount to. So are those of several sites, if each divides the same variable by the number of
backwards in the step: with DDP's ``no_sync`` the last one has a line of its own. A single site is named ``loss``; several are
named ``loss/<variable>``, with the name from the source line; then there is no plain ``loss``, because it is unknown how they
add up. It is also unknown if optimizers take turns on one line, such as agents in a loop, or an actor and a critic that one
function updates. Their losses are numbered: ``loss/0``, ``loss/1``. Optimizers that step on the same loss do not take turns,
however often each of them steps.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from threading import get_ident
from types import FrameType
from typing import Any

from gputop.tracking.auto.losses.reduction import UNREAD, Reduced, read
from gputop.tracking.auto.losses.site import Site
from gputop.tracking.auto.losses.user_code import UserCode
from gputop.tracking.auto.losses.values import value_of


class Sites:
    """All sites of a process. They are named once, after a complete iteration (``settle``)."""

    def __init__(self, code: UserCode) -> None:
        self._code = code
        self._by_place: dict[tuple[int, int], Site] = {}
        self.inside: set[int] = set()
        """Sites that ran in the closure of the current optimizer step; of each, the first loss counts, which is returned."""
        self.pending: list[Site] = []
        self._stepped_on: list[Site] = []
        """The sites whose losses an optimizer last stepped on."""
        self.settled = False
        self.added: tuple[Site, Any] | None = None
        """The site and loss added by the running backward."""
        self.scaled_losses: dict[int, tuple[Any, Any, Reduced]] = {}
        """By thread, the last loss that a GradScaler scaled, until a backward runs on it: a reference to the scaled one, its
        value, and how it was reduced."""
        self.scaled_in_step = False
        """Whether a GradScaler has scaled a loss since the optimizer's last step."""

    def begin_run(self) -> None:
        """Forget the lines and names of an earlier run, but not the losses of the step that opens this one."""
        self.settled = False
        self._stepped_on = []
        self._by_place = {place: site for place, site in self._by_place.items() if site in self.pending}
        for site in self.pending:
            site.begin_run()

    def begin_training(self) -> None:
        """Also forget how an earlier training of this run accumulated its losses."""
        self.begin_run()
        for site in self.pending:
            site.begin_training()

    def take_back(self) -> None:
        """Remove the loss of a backward that failed, because the script may retry it."""
        added, self.added = self.added, None
        if added is None or not added[0].count:
            return
        site, value = added
        site.take_back(value)
        if not site.count and site in self.pending:
            self.pending.remove(site)

    def scaled(self, result: Any, value: Any, part: Reduced) -> None:
        """Remember the loss that a GradScaler scaled: its value, and how it was reduced."""
        self.scaled_in_step = True
        self.scaled_losses[get_ident()] = weakref.ref(result), value, part

    def unscaled(self, torch: Any, tensor: Any) -> tuple[Any, Reduced]:
        """Return the value of the loss that backward runs on, None if it has none, and how it was reduced.

        UNREAD if it was not scaled.
        """
        scaled = self.scaled_losses.pop(get_ident(), None) if self.scaled_losses else None
        if scaled is not None and scaled[0]() is tensor:
            return scaled[1], scaled[2]
        return value_of(torch, tensor), UNREAD

    def begin_backward(self) -> None:
        """Note that a backward begins, whose loss is not known yet."""
        self.added = None

    def begin_step(self) -> None:
        """Note that an optimizer's step begins."""
        self.inside.clear()

    def stepped(self, optimizer: Any) -> None:
        """Note that an optimizer has stepped, either on new losses or on those that the last one stepped on."""
        for site in self._stepped_on:
            if not self.pending:
                site.join(optimizer)
            site.decide()

    def hand_in(self, site: Site, value: Any) -> None:
        """Take the loss of a line that was not added when its backward ran."""
        site.begin(value, UNREAD)
        self.pending.append(site)

    def drop(self, site: Site) -> None:
        """Forget the losses of a line: they led to no step."""
        if site in self.pending:
            self.pending.remove(site)
        site.drop()

    def here(self, start: FrameType | None = None) -> Site:
        """Return the line of the user's code that runs backward, itself or through a library; ``start``: see ``frame``."""
        frame = self._code.frame(start)
        # Keyed by identity and instruction: hashing a code object and finding a line number take microseconds each.
        place = (id(frame.f_code), frame.f_lasti) if frame is not None else (0, 0)
        site = self._by_place.get(place)
        if site is None:
            site = self._by_place[place] = Site(frame)
        return site

    def known_here(self, caller: FrameType | None) -> Site | None:
        """Return the line that ``here`` returns, or None if it may be new; ``caller``: where the search begins."""
        # Without the calls of ``here``: the fast path has no time for them.
        is_library, frame = self._code.known_libraries, caller
        while frame is not None and is_library.get(frame.f_code.co_filename):
            frame = frame.f_back
        return self.here(caller) if frame is None else self._by_place.get((id(frame.f_code), frame.f_lasti))

    def add(self, site: Site, value: Any, part: Reduced, tensor: Any, in_closure: bool, again: bool = False) -> bool:
        """Add a backward of a line; return False if it does not count.

        ``part`` says how the loss was reduced; UNREAD means to read it from ``tensor`` if it matters. ``again``: the closure
        computes a loss again that counted before the optimizer's step.
        """
        if in_closure:
            known = id(site) in self.inside
            self.inside.add(id(site))
            if known or again:
                return False
        if part is UNREAD and (site.count or site.accumulates or site.name is None):
            part = read(tensor)
        if part.count is not None and not isinstance(part.count, int):
            part = part._replace(count=part.count.clone())  # the script may count the next items in the same tensor
        self.put(site, value, part)
        return True

    def put(self, site: Site, value: Any, part: Reduced) -> None:
        """Add the loss of a backward that counts."""
        self.added = site, value
        # A signal handler that raises may have interrupted ``take``: then the losses of that step are still in its sites.
        if site not in self.pending:
            self.pending.append(site)
        elif site.count:
            site.add(value, part)
            return
        site.begin(value, part)

    def take_plain(self, values: dict[str, Any], optimizer: Any, step: int) -> bool:
        """Put the loss into ``values`` if it is the only one, with a name and no division to undo; else return False."""
        site = self.pending[0]
        if len(self.pending) > 1 or site.count > 1 or site.factor != 1.0 or site.name is None or site.accumulates:
            return False
        site.turn(optimizer, step)
        if site.shared or site.undecided:
            return False
        values[site.name] = site.take_plain()
        self._stepped_on, self.pending = self.pending, []
        self.scaled_in_step = False
        return True

    def take(self) -> list[tuple[Site, Any]]:
        """Return (site, loss) for each site that ran since the last call."""
        pending, self.pending = self.pending, []
        self.scaled_in_step = False
        if len(pending) > 1 and _accumulate(pending):
            self._join(pending)
            del pending[1:]
        self._stepped_on = pending
        return [(site, site.take()) for site in pending]

    def take_known(self, sites: list[Site]) -> tuple[Any, ...] | None:
        """Return the loss of each of these sites, which have names.

        None if others ran since the last call, or if some of their losses are on a GPU, and some not.
        """
        pending = self.pending
        if pending != sites:
            return None
        if len(pending) == 1:
            self._stepped_on, self.pending, self.scaled_in_step = pending, [], False
            return (pending[0].take(),)
        known = [type(site.total) is float for site in pending]
        if True in known and False in known:
            return None
        self._stepped_on, self.pending, self.scaled_in_step = pending, [], False
        return tuple([site.take() for site in pending])

    def _join(self, sites: list[Site]) -> None:
        """Merge several sites into one, which gets their losses from now on."""
        first, *others = sites
        for site in others:
            first.add_line(site)
        self._by_place = {place: first if site in others else site for place, site in self._by_place.items()}

    def are_steady(self, sites: list[Site]) -> bool:
        """Return whether these lines have names of their own, and expect no further loss in their step."""
        names = {site.name for site in sites if site.name and not (site.count or site.shared or site.undecided)}
        return self.settled and len(sites) == len(names) > 0

    def only(self) -> Site | None:
        """Return the only line that runs backward, if there is just one and nothing about it is special."""
        if len(self._by_place) != 1 or not self.settled:
            return None
        site = next(iter(self._by_place.values()))
        return None if site.name != "loss" or site.accumulates or site.count else site

    def settle(self, groups: Iterable[list[Site]]) -> None:
        """Name the sites of a complete iteration; ``groups`` holds the sites of each of its optimizer steps."""
        found = list({id(site): site for group in groups for site in group}.values())
        if not found:
            return
        self.settled = True
        if len(found) == 1:
            found[0].settle("loss")
            return
        named: dict[str, int] = {}
        for site in found:
            twins = sum(other.label == site.label for other in found)
            name = f"loss/{site.label}" if twins == 1 else f"loss/{site.label}:{site.line}"
            named[name] = named.get(name, 0) + 1
            site.settle(name if named[name] == 1 else f"{name}:{named[name]}")  # one line runs backward on a variable twice

    def name(self, site: Site, taken: Iterable[str], turn: int = 0) -> str:
        """Return the name of a site's loss in the turn of one of its optimizers.

        A late site shares the name of an earlier one for the same variable, unless that is taken.
        """
        own = site.name
        if own is None:
            shared = next((known.name for known in self._by_place.values() if known.name and known.label == site.label), None)
            own = shared if shared and shared not in taken else f"loss/{site.label}"
            site.set_name(own)
        name = f"{own}/{turn}" if turn or site.numbered else own
        return name if name not in taken else f"loss/{site.label}:{site.line}"


def _accumulate(sites: list[Site]) -> bool:
    """Return whether the sites of one step, none of which has a name yet, contribute parts of one loss."""
    first = sites[0]
    parts = [part for site in sites for part in site.parts]
    return all(site.name is None and site.code is first.code and site.label == first.label for site in sites) and all(
        part.divisor == len(parts) for part in parts
    )
