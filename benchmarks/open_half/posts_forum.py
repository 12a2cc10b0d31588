"""Long logs of several ranks, as in issues and forum posts, open half: with errors in them that are none."""

from __future__ import annotations

from functools import partial

from accuracy.cases import ANY, Case

_case = partial(Case, half="open")
_UNEXPLAINED = ("exception",)

KIND = "of several ranks"
LOGS: tuple[Case, ...] = (
    # The second node limits locked memory, so that NCCL cannot register its buffers.
    _case("two-nodes-after-the-reinstall", (ANY,), "memlock|ulimit|locked memory|lock memory|limits", _UNEXPLAINED),
    # Images of unequal size in one batch, in a worker of rank 2.
    _case("sheets-from-two-herbaria", (ANY,), "size|shape|collate", _UNEXPLAINED),
    # Triton compiles a helper, and Python's headers are not installed.
    _case("compiled-on-a-bare-server", (ANY,), r"Python\.h|python3.*-dev|header", _UNEXPLAINED),
    # Rank 5 never enqueued the collective in which the others timed out.
    _case("one-of-eight-sat-still", ("G01", "C08")),
    # All steps of the critic overflow.
    _case("critic-of-a-small-chat-model", ("J01", "J02", ANY), "loss scale|overflow|diverge", _UNEXPLAINED),
    # Answers grow, until the actor's backward is out of memory; Ray passes the exception on.
    _case("longer-and-longer-sums", ("H02",), acceptable=_UNEXPLAINED),
    # An older cuDNN than TensorFlow was built with.
    _case("leaves-on-four-rented-cards", (ANY,), "cudnn", _UNEXPLAINED),
    # A folder's name is misspelled, so that the data set is empty.
    _case("stems-under-another-folder", (ANY,), "empty|no batch|at least (one|1) batch|no sample|found nothing", _UNEXPLAINED),
    # pip, git and wandb complain before the training, and tqdm after it.
    _case("healthy-installs-then-trains"),
    # Classes that the validation does not contain have nan scores.
    _case("healthy-streets-without-tunnels"),
    # The best return is -inf before the first evaluation; a worker crashes and is replaced.
    _case("healthy-hopper-learns-to-stand"),
)
