"""Reads what this process prints under ``gputop run``, for a training that nothing else records: one without torch.

The streams stay the same objects; only their ``write`` is wrapped, to parse the text on the thread that printed it. A run
opens once lines have shown a measured quantity a few times (see ``printed``), with the label "from the log". It gives way
to any other run: the script's own, or that of automatic tracking, which sees no evaluation: that run gets those that are
printed, unless a framework logs its own. A launched job's output goes to files, which the viewer parses: no run opens for it.

Self-contained at module level, like ``import_hook``: any Python under ``gputop run`` loads this file.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SIGNS = (
    *("loss", "acc", "ppl", "perplexity", "f1", "reward", "return", "mse", "mae", "bleu", "psnr", "auc", "auroc", "error"),
    *("nll", "xent", "entropy", "rouge", "iou", "ssim"),
    *("valid_", "train-", "training's", "cv_agg"),  # boosting
    *("perte", "verlust", "rdida", "perda", "perdita", "kayıp", "kayip", "kayb", "strata", "verlies", "rlust"),
    *("pérd.", "perd."),
    *(
        "ztráta",
        "ztrata",
        "häviö",
        "havio",
        "vesztes",
        "потер",
        "втрат",
        "sonshitsu",
        "损失",
        "損失",
        "손실",
    ),  # a loss in other languages
    # A return or a reward:
    *("retorno", "ritorno", "rendement", "récompense", "recompens", "ricompensa", "belohnung", "ödül", "nagroda", "наград"),
    *("報酬", "奖励", "보상"),
)
WORDS = frozenset(("ce", "bce", "map", "top", "wer", "cer", "elbo", "bpb", "bpc", "fid"))
"""The parser is loaded only once a line contains a sign, or one of these as a word of its own."""
_SPACES = {code: " " for code in range(128) if not chr(code).isalpha()}
LINES_BEFORE = 50
"""Lines kept from before the first sign: a heading may state the epoch."""
LINES_TO_OPEN = 2
LINES_TO_OPEN_WITH_TORCH = 10
"""Lines with a value before a run opens; with torch, automatic tracking usually opens one first, at its first step."""
SELDOM_S = 60.0
"""With torch, a line for each long epoch: from this long after the first sign on, as few lines open a run as at the exit. If
the script has made an optimizer, they may be those of an evaluation before its first step."""
LINES_TO_OPEN_AT_EXIT = 3
"""This many are enough if the process ends and nothing else has opened a run."""
LINE_CHARACTERS = 4000
TEXT_CHARACTERS = 1 << 16
"""How much of the end of one write is parsed: a longer text is no progress line, and parsing would copy it."""
LINES_WITHOUT_SIGN_MAX = 20_000
"""Lines without a sign after which listening ends, so that a program with much output pays no further cost."""
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_STANDARD_LIBRARY = ("<frozen ", os.path.join(os.path.dirname(os.path.abspath(os.__file__)), ""))
SHARE = 0.01
ALLOWANCE_S = 0.5
"""Parsing may take this share of the time since the first sign, plus this allowance; further lines are skipped."""


def shows_sign(text: str) -> bool:
    """Return whether a text may contain a measured quantity."""
    lower = text.lower()
    return any(sign in lower for sign in SIGNS) or not WORDS.isdisjoint(lower.translate(_SPACES).split())


class Listener:
    """Follows one process's standard output and error."""

    def __init__(self, load: Callable[[], bool], opens: bool = True) -> None:
        """Start before the first line.

        Args:
            load: makes ``import gputop.…`` work, and returns False if it cannot.
            opens: whether a run opens where nothing else records the training.
        """
        self._load = load
        self._opens = opens
        self._pid = os.getpid()
        self._partial: dict[str, str] = {}
        self._before: list[str] = []
        self._transcripts: dict[str, Any] | None = None
        self._held: list[tuple[int, dict[str, float]]] = []
        self._run: Any = None
        self._total: int | None = None
        self._lines_without_sign = 0
        self._busy = False
        self._began = 0.0
        self._spent = 0.0
        self._beside = False
        """Whether automatic tracking records the training, so that only evaluations are read."""
        self.over = False

    def parse(self, stream: str, text: str) -> None:
        """Parse text written to the stream of this name. Raises only what a signal handler of the script raises meanwhile."""
        if self.over or self._busy:
            return
        self._busy = True  # ignore what we print in here, and what other threads print meanwhile
        try:
            self._parse(stream, text)
        except Exception as error:  # noqa: BLE001 - the script keeps printing, whatever is wrong with a line
            self.over = True
            let_through = self._import_let_through()
            if let_through is not None:
                let_through(error)
        finally:
            self._busy = False

    def _import_let_through(self) -> Callable[[BaseException], None] | None:
        """Return the function that raises errors of signal handlers again; None if it cannot be imported, which may be the
        error itself."""
        try:
            if self._load():
                from gputop.tracking.journal.handlers import let_through

                return let_through
        except Exception:  # noqa: BLE001 - as above
            return None
        return None

    def _parse(self, stream: str, text: str) -> None:
        whole = self._partial.get(stream, "") + text[-TEXT_CHARACTERS:]
        end = max(whole.rfind("\n"), whole.rfind("\r")) + 1
        self._partial[stream] = whole[end:][-LINE_CHARACTERS:]
        if not end:
            return
        lines = whole[:end]
        if self._beside:
            if not _may_evaluate(lines):
                return
        elif not self._opens and not self._recorded_otherwise():
            return
        if self._transcripts is None:
            if not shows_sign(lines):
                self._before = [*self._before[1 - LINES_BEFORE :], lines[-LINE_CHARACTERS:]]
                self._lines_without_sign += 1
                self.over = self._lines_without_sign > LINES_WITHOUT_SIGN_MAX
                return
            if not self._load():
                self.over = True
                return
            from gputop.tracking.printed.transcript import Transcript

            self._transcripts = {name: Transcript() for name in ("stdout", "stderr")}
            self._began = time.perf_counter()
            lines = "".join(self._before) + lines
            self._before = []
        self._read(stream, lines)

    def _read(self, stream: str, lines: str) -> None:
        if self._spent > ALLOWANCE_S + SHARE * (time.perf_counter() - self._began):
            return
        started = time.thread_time()
        assert self._transcripts is not None
        transcript = self._transcripts[stream]
        if self._recorded_otherwise():
            takes = self._taken_by()
            self.over, self._beside = takes is None, True
            if takes is not None and _may_evaluate(lines):
                for _, metrics in transcript.feed(lines.encode("utf-8", "replace")):
                    takes(_evaluation_of(metrics))
                self._spent += time.thread_time() - started
            return
        for step, metrics in transcript.feed(lines.encode("utf-8", "replace")):
            self._take(step, metrics)
        if self._run is not None and transcript.total_steps not in (None, self._total):
            self._total = transcript.total_steps
            from gputop.facts.setup import Progress

            self._run.fact("progress", Progress.filled(total_steps=self._total, epochs=None))
        self._spent += time.thread_time() - started

    def _taken_by(self) -> Callable[[dict[str, float]], bool] | None:
        """Return what takes the evaluations that are printed; None if nothing in this process does."""
        runs: Any = sys.modules.get("gputop.tracking.session")
        takes = runs.printed_to() if runs is not None and os.getpid() == self._pid else None
        return takes if takes is not None and takes({}) else None

    def _recorded_otherwise(self) -> bool:
        """Return whether another run is active, or this one has ended; a forked child has none."""
        if os.getpid() != self._pid:
            return True
        runs: Any = sys.modules.get("gputop.tracking.session")
        if runs is None:
            return False
        current = runs.current()
        return bool(current is not self._run or current.disabled) if self._run is not None else bool(runs.initialized())

    def _take(self, step: int, metrics: dict[str, float]) -> None:
        if self._run is not None:
            self._run.log(metrics, step=step)
            return
        self._held.append((step, metrics))
        if len(self._held) == LINES_TO_OPEN_AT_EXIT:
            self._note_exit()
        if len(self._held) >= self._lines_to_open() and not _expected():
            self._open()

    def _lines_to_open(self) -> int:
        """Return after how many lines with a value a run opens."""
        if "torch" not in sys.modules:
            return LINES_TO_OPEN
        seldom = time.perf_counter() - self._began >= SELDOM_S and not _has_optimizer()
        return LINES_TO_OPEN_AT_EXIT if seldom else LINES_TO_OPEN_WITH_TORCH

    def _open(self) -> None:
        """Open a run with the lines that were held back."""
        from gputop.tracking import session
        from gputop.tracking.printed.lines import SOURCE

        self._run = session.init_unasked()
        self._run.fact("source", SOURCE)
        held, self._held = self._held, []
        for at, metrics in held:
            self._run.log(metrics, step=at)

    def _note_exit(self) -> None:
        """Learn how the process ends, in case no more lines follow."""
        import atexit

        from gputop.tracking import ending, session

        ending.hook(session.current)
        atexit.register(self.exiting)

    def exiting(self) -> None:
        """Open a run for the lines that are still held, and end it as the process ends. Never raises."""
        try:
            if self.over or self._run is not None or len(self._held) < LINES_TO_OPEN_AT_EXIT or self._recorded_otherwise():
                return
            from gputop.tracking import ending

            self._busy = True
            self._open()
            run: Any = self._run
            error = getattr(sys, "last_value", None)
            ending.record_error(run, error)
            run.end(ending.exit_code_of(error) or ending.asked_to_exit())
        except Exception:  # noqa: BLE001 - the process ends, whatever is wrong with its lines
            self.over = True


def _evaluation_of(metrics: dict[str, float]) -> dict[str, float]:
    """Return what a line says of an evaluation, and the training's scores next to it; empty without any.

    The training's loss is known of each step: the printed one is a mean.
    """
    from gputop.tracking.printed.names import is_evaluation, is_measured

    if not any(map(is_evaluation, metrics)):
        return {}
    return {
        name: at for name, at in metrics.items() if is_evaluation(name) or (is_measured(name) and "loss" not in name.lower())
    }


def _may_evaluate(text: str) -> bool:
    """Return whether a text may contain a word for an evaluation."""
    lower = text.lower()
    return "val" in lower or "test" in lower or "dev" in lower or "held" in lower or "hold" in lower or not text.isascii()


def _expected() -> bool:
    """Return whether automatic tracking is about to open a run."""
    by_hand: Any = sys.modules.get("gputop.tracking.manual_steps")
    return by_hand is not None and by_hand.is_deciding()


def _has_optimizer() -> bool:
    """Return whether this process has made one of torch's optimizers: torch then marks the step of its class."""
    left: list[Any] = [getattr(sys.modules.get("torch.optim"), "Optimizer", None)]
    while left:
        kind = left.pop()
        if getattr(getattr(kind, "step", None), "hooked", False):
            return True
        if isinstance(kind, type):
            left += type.__subclasses__(kind)
    return False


def listen(load: Callable[[], bool]) -> None:
    """Listen to this process's streams from now on; in a launched job, whose output is read from its files, for evaluations."""
    env = os.environ
    off = env.get("GPUTOP") == "0" or env.get("GPUTOP_MODE") == "disabled" or env.get("GPUTOP_AUTO") == "0"
    if off:
        return
    listener = Listener(load, opens=not env.get("GPUTOP_JOB_ID"))
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is not None:
            _follow(stream, name, listener)


def _leave_out_calls(error: BaseException, parsing: bool) -> None:
    """Remove gputop's calls from the start of an error's traceback, and what they call while parsing, as when a handler of a
    signal raises meanwhile. Python 3.10 puts them back as it raises the error again.
    """
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename, parsing):
        trace = trace.tb_next
    error.__traceback__ = trace


def _is_ours(path: str, parsing: bool) -> bool:
    return path.startswith(_PACKAGE) or (parsing and path.startswith(_STANDARD_LIBRARY) and "site-packages" not in path)


def _follow(stream: Any, name: str, listener: Listener) -> None:
    write = stream.write

    def write_and_parse(text: str, /) -> int:
        parsing = False
        try:
            count: int = write(text)
            parsing = True
            if not listener.over:
                listener.parse(name, text)
            elif getattr(stream, "__dict__", {}).get("write") is write_and_parse:
                del stream.write  # restore the stream, unless the script has put a function of its own there
        except BaseException as error:
            _leave_out_calls(error, parsing)
            raise  # without an entry of its own: Python adds one where an error is raised, and not where it is raised again
        return count

    # Stated in ``stand_in``, for a warning in a ``write`` of the script's own, and for Python 3.10.
    write_and_parse.__code__ = write_and_parse.__code__.replace(co_filename=f"{__file__}#importlib._bootstrap")
    for part in ("__name__", "__qualname__", "__doc__"):
        if isinstance(known := getattr(write, part, None), str):
            setattr(write_and_parse, part, known)
    try:
        stream.write = write_and_parse
    except AttributeError:  # a stream that takes no new attributes: this process is not followed
        return
