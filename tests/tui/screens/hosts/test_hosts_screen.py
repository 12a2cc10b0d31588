"""The hosts screen: what is wrong comes first, the cursor stays on its host, and every host can be reached and opened."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from textual import _time
from textual.pilot import Pilot

from gputop.hosts.state import HostStatus
from gputop.process import ProcessCurve
from gputop.questions import Answer, Question
from gputop.settings.values import Settings
from gputop.snapshot import Device, Host, Snapshot
from gputop.tui.hosts_app import HostsApp
from gputop.tui.screens.hosts.screen import HostsScreen
from gputop.tui.state.own_cost import OwnCost
from gputop.whereabouts.records import RankPlace, Whereabouts, WhereQuestion
from tests import samples
from tests.joined.test_untracked import node
from tests.tui.kit import text_of
from tests.tui.screens.hosts.kit import HostStill, hosts_app, live, until, working
from tests.tui.screens.test_hostile_names import EVIL, assert_safe


def listed(app: HostsApp) -> list[str]:
    """The hosts in the order of the list."""
    screen = app.screen_stack[1]
    assert isinstance(screen, HostsScreen)
    return [row.host for row in screen.hosts.rows]


def chosen(app: HostsApp) -> str | None:
    screen = app.screen_stack[1]
    assert isinstance(screen, HostsScreen)
    return screen.hosts.chosen


def five() -> tuple[HostStill, ...]:
    lost = HostStatus("lost", "ended", last_heard_at=time.time() - 300, message="The link was lost.")
    return (
        HostStill(live("fine"), *working("fine")),
        HostStill(live("idle"), *(replace(one, devices=(samples.idle_device(0),)) for one in working("idle"))),
        HostStill(HostStatus("coming")),
        HostStill(live("wrong"), *(replace(samples.ranks_on_one_gpu(tick), interval_s=3600.0) for tick in range(20))),
        HostStill(lost, *working("lost")),
    )


async def shown(pilot: Pilot[None], app: HostsApp) -> str:
    return await until(pilot, app, "Only GPU 0 is used")


async def test_problems_come_first_and_are_named_above() -> None:
    app = hosts_app(*five(), interval_s=60.0)
    async with app.run_test(size=(160, 50)) as pilot:
        text = await shown(pilot, app)
        assert listed(app)[:2] == ["lost", "wrong"]
        assert listed(app)[-2:] == ["coming", "fine"]
        head, verdict, *rows = text.splitlines()
        assert "5 hosts · 25 GPUs so far" in head  # one is still connecting
        assert "9 of 25 GPUs work" in verdict
        assert "no link to lost" in verdict
        assert "wrong: Only GPU 0 is used: all 4 ranks run on it" in verdict
        lost = next(row for row in rows if row.startswith(" lost "))
        assert "link lost 5m" in lost
        fine = next(row for row in rows if row.startswith(" fine "))
        assert ("8/8" in fine, "▇" * 16 in fine, "resnet18-ddp" in fine) == (True, True, True)
        coming = next(row for row in rows if row.startswith(" coming "))
        assert "connecting" in coming
        assert coming.count("N/A") == 2


async def test_an_untracked_run_over_hosts_is_listed_once_with_its_hosts() -> None:
    seen = (node("a", range(2), world_size=6), node("b", range(2, 4), world_size=6))
    feeds = [HostStill(live(one.host), replace(one.snapshot, interval_s=3600.0)) for one in seen]
    lost = HostStatus("c", "refused", message="It refuses the connection.")
    app = hosts_app(*feeds, HostStill(lost), interval_s=60.0)
    async with app.run_test(size=(160, 50)) as pilot:
        text = await until(pilot, app, "ranks 4, 5 of 6")
        assert "run train.py: ranks 4, 5 of 6 have not been heard from; no reading of c" in text.splitlines()[1]
        await pilot.press("down")
        text = await until(pilot, app, "Run train.py over 2 hosts · 4 of 6 ranks · not tracked · meets at gpu1:29500")
        assert "a r0-1  b r2-3" in text
        assert "! ranks 4, 5 of 6 have not been heard from; no reading of c" in text


async def test_a_machine_that_prometheus_also_reports_is_one_row() -> None:
    def told(host: str, *devices: Device) -> HostStill:
        base = samples.snapshot()
        of = replace(base, host=Host(host, source="prometheus"), devices=devices, processes=(), runs=(), points=())
        return HostStill(live(host), replace(of, interval_s=3600.0))

    own = HostStill(live("gpu1"), *working("gpu1", devices=2))
    same, other = told("10.0.0.1", samples.device(0), samples.device(1)), told("gpu2", samples.device(7))
    app = hosts_app(own, same, other, interval_s=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        text = await until(pilot, app, "2 hosts · 3 GPUs")
        assert sorted(listed(app)) == ["gpu1", "gpu2"]
        assert " old" in text, "what Prometheus tells has its age beside it"
        own.link = HostStatus("gpu1", "ended", last_heard_at=time.time() - 300, message="The link was lost.")
        app.fleet.take_in()
        shown = {host.status.host for host in app.fleet.view(Settings()).hosts}
        assert shown == {"gpu1", "gpu2", "10.0.0.1"}, "only Prometheus tells of it now"


async def test_a_machine_with_two_names_is_one_row_and_says_so() -> None:
    first, again = (
        HostStill(live("gpu1"), *working("gpu1", devices=2)),
        HostStill(live("10.0.0.1"), *working("gpu1", devices=2)),
    )
    app = hosts_app(first, again, HostStill(live("gpu2"), *working("gpu2", devices=2)), interval_s=60.0)
    async with app.run_test(size=(120, 30)) as pilot:
        text = await until(pilot, app, "2 hosts · 4 GPUs", "10.0.0.1 names the same machine, and is not shown.")
        assert sorted(listed(app)) == ["gpu1", "gpu2"]
        assert "over 2 hosts" not in text, "a run of one machine is no run over hosts"


async def test_what_gputop_itself_takes_is_shown_over_hosts_and_on_their_dashboards() -> None:
    now = itertools.count(0.0, 30.0)
    app = hosts_app(*five(), interval_s=60.0)
    app._own_cost = OwnCost(lambda: next(now), lambda: 0.0)
    async with app.run_test(size=(160, 50)) as pilot:
        await shown(pilot, app)
        assert "gputop 0.0%" in await until(pilot, app, "5 hosts", "gputop 0.0%")
        await pilot.press("down", "enter")
        text = await until(pilot, app, "ON wrong", "Processes")
        assert "gputop 0.0%" in text.splitlines()[0], "from the first frame on"


async def test_a_host_is_opened_and_left_again() -> None:
    app = hosts_app(*five(), interval_s=60.0)
    async with app.run_test(size=(160, 50)) as pilot:
        await shown(pilot, app)
        assert chosen(app) == "lost"
        await pilot.press("down")
        await pilot.pause()
        assert app.machine.feed.host == chosen(app) == "wrong"
        await pilot.press("d")
        await until(pilot, app, "doctor", "LOCAL_RANK 0-3")
        await pilot.press("escape", "enter")
        text = await until(pilot, app, "ON wrong", "Processes")
        assert "Esc hosts" in text
        await pilot.press("escape")
        await until(pilot, app, "5 hosts")
        assert chosen(app) == "wrong"
        await pilot.press("end", "up", "enter")
        await pilot.pause()
        assert isinstance(app.screen, HostsScreen)
        await pilot.press("l")
        await pilot.pause()
        told = [notice.message for notice in app._notifications]
        assert told[0] == "There is no reading of coming yet."
        assert told[1].startswith("This screen shows coming:")


async def test_the_cursor_stays_on_its_host_while_others_move() -> None:
    feeds = [HostStill(live(f"n{number}"), *working(f"n{number}", 1)) for number in range(4)]
    app = hosts_app(*feeds, interval_s=60.0)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, app, "n3", "4 hosts")
        await pilot.press("down", "down")
        await pilot.pause()
        assert chosen(app) == "n2"
        feeds[3].link = HostStatus("n3", "refused", message="It refuses the connection.", hint="Check the port.")
        app.take_in()
        await until(pilot, app, "no link to n3")
        assert (listed(app)[0], chosen(app)) == ("n3", "n2")
        await pilot.press("home")
        await until(pilot, app, "n3: connection refused. It refuses the connection. Check the port.")


async def test_a_filter_keeps_some_hosts_and_says_what_is_wrong_with_it() -> None:
    app = hosts_app(*five(), interval_s=60.0)
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, app)
        await pilot.press("slash", *"idle>0 -lost", "enter")
        await until(pilot, app, "Hosts  2 of 5")
        text = await until(pilot, app, "\n idle ", "\n wrong ")
        assert [word for word in ("fine ", "idle ", "wrong ") if f"\n {word}" in text] == ["idle ", "wrong "]
        assert chosen(app) in ("idle", "wrong")
        await pilot.press("slash", *" nope:1")
        await until(pilot, app, "is not a field of a host")
        await pilot.press("escape")
        await until(pilot, app, "fine ")
        await pilot.press("slash", *"nobody", "enter")
        await until(pilot, app, "No host matches the filter.")
        await pilot.press("enter", "down", "escape")
        await until(pilot, app, "fine ")


@pytest.mark.parametrize(("count", "size"), [(64, (160, 50)), (40, (80, 24))])
async def test_many_hosts_fit_or_are_paged(count: int, size: tuple[int, int]) -> None:
    names = [f"node{number:03}" for number in range(count)]
    app = hosts_app(*(HostStill(live(name), *working(name, 1)) for name in names), interval_s=60.0)
    async with app.run_test(size=size) as pilot:
        text = await until(pilot, app, f"{count} hosts · {count * 8} GPUs", "8/8")
        seen = {name for name in names if name in text}
        assert text.count("▇" * 8) >= len(seen)
        assert len(seen) >= (64 if size[0] == 160 else 10)
        while chosen(app) != names[-1]:
            await pilot.press("pagedown")
            await pilot.pause()
            seen |= {name for name in names if name in text_of(app)}
        assert seen == set(names)
        await pilot.press("home", "right")
        await pilot.pause()
        assert chosen(app) == names[1]
        if size[0] < 160:
            return
        text = await until(pilot, app, "node003 ")
        row = next(number for number, line in enumerate(text.splitlines()) if "node003 " in line)
        await pilot.click(offset=(text.splitlines()[row].index("node003"), row))
        await pilot.pause()
        assert chosen(app) == "node003"
        await pilot.click(offset=(2, row), times=2)
        await until(pilot, app, "ON node002")


async def test_a_busy_machine_keeps_no_host_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Textual timer never fires if its time has passed when its task begins; here, turns are that slow."""
    clock, looks = _time.get_time, itertools.count()
    monkeypatch.setattr(_time, "get_time", lambda: clock() + 0.03 * next(looks))
    app = hosts_app(*(HostStill(live(f"node{number}"), *working(f"node{number}", 1)) for number in range(12)))
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, app, "12 hosts · 96 GPUs")


async def test_a_paused_screen_stands_still() -> None:
    feed = HostStill(live("a"), *working("a", 1))
    app = hosts_app(feed, HostStill(live("b"), *working("b", 1)), interval_s=60.0)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, app, "2 hosts")
        await pilot.press("p")
        await until(pilot, app, "PAUSED")
        feed.link = HostStatus("a", "refused")
        app.take_in()
        await pilot.press("down", "up")
        await pilot.pause()
        assert "no link" not in text_of(app)
        await pilot.press("p")
        assert "PAUSED" not in await until(pilot, app, "no link to a")


def evil(snapshot: Snapshot) -> Snapshot:
    run = replace(snapshot.runs[0], name=EVIL)
    host = replace(snapshot.host, hostname=EVIL)
    device = replace(snapshot.devices[0], name=EVIL, state="lost")
    return replace(snapshot, runs=(run,), host=host, devices=(device,))


async def test_hostile_names_and_tiny_terminals() -> None:
    status = HostStatus(EVIL, "failed", last_heard_at=time.time(), message=EVIL, hint=EVIL)
    one = evil(samples.snapshot())
    other = replace(one, host=replace(one.host, boot_id="another machine"))
    feeds = (HostStill(live("a"), one), HostStill(status, other))
    app = hosts_app(*feeds, interval_s=60.0)
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, app, "2 hosts")
        for key in ("down", "slash", "escape"):
            await pilot.press(key)
            await pilot.pause()
            assert_safe(app)
        for size in ((1, 1), (1, 24), (80, 1), (3, 30), (7, 7), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert all(len(line) <= size[0] for line in text_of(app).splitlines())
        await until(pilot, app, "2 hosts")
        assert_safe(app)


async def test_a_run_over_hosts_is_one_run_with_what_is_missing_of_it() -> None:
    def part(host: str, first: int, **metrics: float) -> list[Snapshot]:
        made = []
        for one in working(host):
            ranks = tuple(
                replace(held, rank=first + held.rank, pid=4000 + held.rank, world_size=12, metrics=held.metrics | metrics)
                for held in one.runs[0].ranks
            )
            made.append(replace(one, runs=(replace(one.runs[0], name="llama", world_size=12, ranks=ranks),)))
        return made

    slow = part("n2", 4, step_s=0.1, **{"phase/backward": 0.03})
    quick = part("n1", 0, step_s=0.1, **{"phase/backward": 0.05})
    app = hosts_app(HostStill(live("n1"), *quick), HostStill(live("n2"), *slow), HostStill(HostStatus("n3")), interval_s=60.0)
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, app, "4 of 12")
        await pilot.press("down")
        text = await until(pilot, app, "Run llama over 2 hosts · 8 of 12 ranks", "n1 r0-3", "n2 r4-7")
        said = "ranks 8-11 of 12 have not been heard from; no reading of n3"
        assert f"run llama: {said}" in text.splitlines()[1]
        assert f"! {said}" in text
        assert "slowest n2 by 20%" in text
        assert "4 of 12" in next(line for line in text.splitlines() if line.startswith(" n1 "))


class AskedHost(HostStill):
    """A host that answers at once."""

    def __init__(self, host: str, *snapshots: Snapshot) -> None:
        super().__init__(live(host), *snapshots)
        self.asked: list[Question] = []
        self.answers: list[Answer] = []
        self.notify: Callable[[], object] = lambda: None

    def start(self, notify: Callable[[], object]) -> None:
        self.notify = notify
        super().start(notify)

    def ask(self, question: Question) -> None:
        self.asked.append(question)
        assert isinstance(question, WhereQuestion)
        place = RankPlace(0, question.pids[0], self.host)
        self.answers.append(Whereabouts(question.run_id, "train.py", samples.EPOCH, (place,)))
        self.notify()

    def take_answers(self) -> list[Answer]:
        found, self.answers = self.answers, []
        return found


async def test_the_host_under_the_cursor_answers_where_the_ranks_of_an_untracked_run_are() -> None:
    seen = node("a", range(2))
    curve = replace(samples.snapshot().runs[0], run_id="pid-1-2-aa", ranks=samples.snapshot().runs[0].ranks[:1])
    (whole,) = seen.snapshot.process_runs
    whole = replace(whole, run_id=curve.run_id, curves=(ProcessCurve(curve.run_id, "TensorBoard"),))
    host = AskedHost("a", replace(seen.snapshot, interval_s=3600.0, runs=(curve,), process_runs=(whole,)))
    app = hosts_app(host, interval_s=60.0)
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, app, whole.name)
        await pilot.press("w")
        text = await until(pilot, app, "its line is not known: gputop does not run in it")
        assert "ON a" in text
        assert "py-spy" not in text, "it reads no process of another machine"
    assert host.asked[0] == WhereQuestion(whole.key, tuple(rank.pid for rank in whole.ranks))
