"""All keys of the program in one table: the app binds them, the help screen and the key bar print them."""

from __future__ import annotations

from typing import NamedTuple


class KeyHelp(NamedTuple):
    """One line of the help screen."""

    keys: str
    what: str
    where: str


class AppKey(NamedTuple):
    """A key that works on every screen: Textual's key names and the app's action."""

    keys: str
    action: str
    what: str


APP_KEYS = (
    AppKey("q,ctrl+c,f10", "leave", "quit; jobs keep running"),
    AppKey("question_mark,f1", "help", "help"),
    AppKey("l", "launch", "launch a demo or a command of your own"),
    AppKey("d", "doctor", "doctor: what is wrong, and the fix"),
    AppKey("o", "runs", "runs: all live and stored ones, with their curves"),
    AppKey("k,f9", "stop_chosen", "stop or kill the chosen process or run (asks first)"),
    AppKey("e", "environment", "environment of the chosen process"),
    AppKey("w", "where", "where every rank of the chosen run is"),
    AppKey("P", "profile", "profile three steps of the chosen run (shows the cost first)"),
    AppKey("y", "copy", "copy what is under the cursor: PID, UUID, run id or fix"),
    AppKey("S", "save_screen", "save a picture of the screen (screenshot): SVG and text"),
    AppKey("p", "pause", "pause the screen; sampling continues"),
    AppKey("plus,equals_sign", "interval('longer')", "longer interval"),
    AppKey("minus", "interval('shorter')", "shorter interval"),
    AppKey("f2", "settings", "settings: theme, interval, curves"),
    AppKey("ctrl+l", "draw_anew", "redraw the screen"),
    AppKey("colon,ctrl+p", "palette", "all actions with their keys"),
    AppKey("full_stop", "replay_step", "replay: next snapshot"),
    AppKey("left_parenthesis", "replay_seek(-1)", "replay: a minute back; further at a higher speed"),
    AppKey("right_parenthesis", "replay_seek(1)", "replay: a minute forward"),
    AppKey("right_curly_bracket", "replay_faster", "replay: faster"),
    AppKey("left_curly_bracket", "replay_slower", "replay: slower"),
)

_NAMES = {
    "escape": "Esc",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "space": "Space",
    "full_stop": ".",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "right_curly_bracket": "}",
}


def key_name(key: str) -> str:
    """Return a key of Textual's as people write it: "ctrl+p" -> "Ctrl-P", "question_mark" -> "?"."""
    *modifiers, last = key.split("+")
    name = _NAMES.get(last, last if len(last) == 1 else last.capitalize())
    return "-".join([*(part.capitalize() for part in modifiers), name.upper() if modifiers and len(name) == 1 else name])


KEYS: tuple[KeyHelp, ...] = (
    KeyHelp("q  Ctrl-C  F10", "quit; jobs keep running, no process is signaled", "everywhere"),
    KeyHelp("?  F1", "this help", "everywhere"),
    KeyHelp("l", "launch: start a demo or a run on chosen GPUs", "everywhere"),
    KeyHelp("d", "doctor: what is wrong, the evidence, the fix", "everywhere"),
    KeyHelp("o", "runs: all live and stored ones, with a filter; in a narrow run screen, the list or the charts", "everywhere"),
    KeyHelp("y", "copy: PID and command, a GPU's UUID, a run's id, a finding's fix (OSC 52)", "everywhere"),
    KeyHelp("S", "save the screen as SVG and text in the state directory; says where", "everywhere"),
    KeyHelp("p", "pause the screen (a replay: pause or resume)", "everywhere"),
    KeyHelp("+  -", "longer or shorter interval", "everywhere but a run"),
    KeyHelp("F2", "settings", "everywhere"),
    KeyHelp(":  Ctrl-P", "palette: every action of this screen with its key, searched by typing", "everywhere"),
    KeyHelp("Ctrl-L", "redraw the screen, if something else wrote to the terminal", "everywhere"),
    KeyHelp("Esc", "back", "every screen but the dashboard"),
    KeyHelp("Tab  Shift-Tab  1-4", "next, previous or that pane", "dashboard"),
    KeyHelp("arrows  PgUp  PgDn  Home  End", "move in a pane", "dashboard"),
    KeyHelp("left  right", "in the processes: whole commands, scrolled to the right; and back", "dashboard"),
    KeyHelp("Enter", "details: of the chosen process, GPU or run; a click on a GPU, run or finding opens it, too", "dashboard"),
    KeyHelp(
        "/  Esc",
        "filter the processes: words, gpu:0-3 rank:2 user:me run:gpt mem>10G sm>50 time>1h, /regex/, -not; Esc clears",
        "dashboard",
    ),
    KeyHelp("s  F6  <  >", "sort by another column", "dashboard"),
    KeyHelp("I", "invert the order", "dashboard"),
    KeyHelp("t", "processes as a tree by run and rank", "dashboard"),
    KeyHelp("Space", "tag the chosen process and go to the next; Esc removes all tags", "dashboard"),
    KeyHelp(
        "k  F9", "stop the chosen run or job, or signal the chosen or tagged processes: asks first, your own only", "dashboard"
    ),
    KeyHelp("e", "environment of the chosen process", "dashboard"),
    KeyHelp("w", "where every rank is: its current line, and which rank the others wait for", "dashboard, run"),
    KeyHelp("P", "profile: where the time of three steps goes; shows the cost first, Enter starts it", "dashboard, run"),
    KeyHelp("n  N", "next or previous run", "dashboard"),
    KeyHelp("Y", "logarithmic loss axis", "dashboard, run"),
    KeyHelp("[  ]", "less or more smoothing", "dashboard, run"),
    KeyHelp("r", "one curve per rank, or mean and spread", "dashboard, run"),
    KeyHelp("/", "filter the runs: words, tag:… state:… recipe:…, lr>1e-3, loss<0.5, duration>2h, /regex/, -not", "run"),
    KeyHelp("Space  u", "overlay the run under the cursor; only the chosen run", "run"),
    KeyHelp("n  N", "next or previous run of the list", "run"),
    KeyHelp("x", "time since the start, steps, epochs, or time of day along the axis", "run"),
    KeyHelp("left  right", "read the values of all curves at a position (Shift: ten columns); a click reads there", "run"),
    KeyHelp("+  -  0", "zoom in, out, the whole; the wheel zooms, dragging selects a range", "run"),
    KeyHelp("m  M", "next or previous metric", "run"),
    KeyHelp("g", "all metrics in small charts: arrows choose, Enter opens one, / searches, PgUp PgDn page", "run"),
    KeyHelp("h", "heat rows of the ranks: waiting, step time, or loss; untracked: GPU, memory, CPU, threads", "run"),
    KeyHelp("t", "ranks and configuration instead of the charts", "run"),
    KeyHelp("Up  Down  [  ]", "previous or next GPU", "GPU"),
    KeyHelp("left  right", "shorter or longer range: 1, 5, 30 minutes, the whole run", "GPU"),
    KeyHelp("F5  Ctrl-S", "start the chosen recipe", "launch"),
    KeyHelp("F6", "run the chosen recipe at 1, 2, 4 GPUs, one after another", "launch"),
    KeyHelp("c", "compare the jobs: speed-up, efficiency, seconds per epoch", "launch"),
    KeyHelp("Space  digits", "in the form: choose GPUs", "launch"),
    KeyHelp("Ctrl-D", "forget your chosen command", "launch"),
    KeyHelp("x  k  F9", "stop the chosen job: asks first", "launch"),
    KeyHelp("r", "in the log: all, the launcher's, or one rank's output", "launch"),
    KeyHelp("/  n  N", "in the log: search, next, previous", "launch"),
    KeyHelp("Home  End", "in the log: its beginning; follow its end again", "launch"),
    KeyHelp("c", "copy the whole finding; y: only its fix", "doctor"),
    KeyHelp("c", "density of the GPU rows", "dashboard"),
    KeyHelp("arrows  PgUp  PgDn  Home  End", "choose a host; what is wrong comes first", "hosts"),
    KeyHelp("Enter", "the dashboard of the chosen host (also a double click); Esc there returns", "hosts"),
    KeyHelp("/  Esc", "filter the hosts: words, state:lost run:llama idle>0, /regex/, -not; Esc clears", "hosts"),
    KeyHelp(".  {  }", "replay: next snapshot, slower, faster", "replay"),
    KeyHelp("(  )", "replay: a minute back or forward; at a higher speed further", "replay"),
)
