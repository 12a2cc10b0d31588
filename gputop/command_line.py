"""What a command line runs: the script or module behind an interpreter. Pure text."""

from __future__ import annotations

import re
from collections.abc import Sequence

PYTHON_FLAGS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Options of Python whose value is the next word."""
_LOCAL_RANK = re.compile(r"--local[-_]rank(=.*)?$")
_PYTHON = re.compile(r"(python|pypy)[\d.]*$")
_SPAWNED = "multiprocessing.spawn"
_FORK_SERVER = "multiprocessing.forkserver import main"
_TOOLS = frozenset(
    (
        *("pytest", "py.test", "unittest", "tox", "nox", "nose2", "_jb_pytest_runner", "_jb_unittest_runner"),
        *("pylint", "flake8", "ruff", "mypy", "dmypy", "pyright", "black", "isort", "pre-commit"),
        *("pip", "pip3", "pipx", "uv", "poetry", "conda", "mamba"),
        *("jupyter", "jupyter-lab", "jupyter-notebook", "jupyter-server", "jupyterlab", "jupyter_server", "notebook"),
        *("jupyterhub", "jupyterhub-singleuser", "tensorboard", "mlflow", "wandb", "aim"),
        *("pylsp", "jedi-language-server", "jedi_language_server", "lsp_server", "sphinx-build", "mkdocs", "gputop"),
    )
)
"""Programs that may load torch and never train, by the names of their scripts or modules."""
_TOOLS_BELOW = ("/ray/dashboard/", "/ray/_private/", "/ray/autoscaler/", "/debugpy/adapter", "/vscode_pytest/")
"""The same, by their folders."""
_TEST_WORKER = "exec(eval(sys.stdin.readline()))"
"""How pytest-xdist starts its workers."""
_KERNELS = ("ipykernel", "colab_kernel")


def is_python(command: Sequence[str]) -> bool:
    """Return whether the command starts with a Python interpreter."""
    return bool(command) and _PYTHON.search(command[0].rpartition("/")[2]) is not None


def is_spawned(command: Sequence[str] | None) -> bool:
    """Return whether Python's multiprocessing spawned this process, as torch.multiprocessing.spawn does."""
    return _SPAWNED in " ".join(command or ())


def is_fork_server(command: Sequence[str] | None) -> bool:
    """Return whether this is the fork server of Python's multiprocessing, which from Python 3.14 on forks all of its children,
    or one of those: they run the same command."""
    return any(_FORK_SERVER in word for word in command or ())


def is_notebook_kernel(command: Sequence[str] | None) -> bool:
    """Return whether the process runs the cells of a notebook."""
    words = " ".join(command or ())
    return any(kernel in words for kernel in _KERNELS)


def is_tool(command: Sequence[str] | None) -> bool:
    """Return whether a command runs a tool that never trains, though it may load torch: a test runner, a linter, an
    installer, a notebook's server (not its kernel), a language server, or a dashboard."""
    words = script_words(command)
    if not words:
        return any(_TEST_WORKER in word for word in command or ())
    program = words[1] if words[0] == "-m" and len(words) > 1 else words[0].rpartition("/")[2]
    names = {program, program.removesuffix(".py"), program.partition(".")[0]}
    return not names.isdisjoint(_TOOLS) or any(part in words[0] for part in _TOOLS_BELOW)


def is_session(command: Sequence[str] | None) -> bool:
    """Return whether the user types the program piece by piece, in cells or at a prompt, and may pause in between."""
    if not command or is_notebook_kernel(command):
        return bool(command)
    words = script_words(command)
    if not words:
        return not {"-c", "-"} & set(command)
    return words[0].rpartition("/")[2] == "ipython" and all(word.startswith("-") for word in words[1:])


def script_words(command: Sequence[str] | None) -> tuple[str, ...]:
    """Return the script (or "-m", module) and its arguments, without the interpreter and what a launcher added.

    Another program's command is returned whole; nothing if the command names no script ("-c", standard input).
    """
    if not command:
        return ()
    if not is_python(command):
        return tuple(command)
    rest = list(command[1:])
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-"):
        taken = rest.pop(0)
        if taken in PYTHON_FLAGS_WITH_VALUE and rest:
            rest.pop(0)
    if not rest or rest[0] in ("-c", "-"):
        return ()
    return tuple(item for item in rest if not _LOCAL_RANK.match(item))


def script_name(command: Sequence[str] | None) -> str | None:
    """Return a short name for what a command runs: "train.py", "package.train", "python -c"; None without a command."""
    if not command or not command[0]:
        return None
    words = script_words(command)
    if not words:
        return f"{command[0].rpartition('/')[2]} -c" if "-c" in command else command[0].rpartition("/")[2]
    if words[0] == "-m":
        return words[1] if len(words) > 1 else "python -m"
    # A process that has set its own title has one argument with spaces, and no path in it.
    title = len(command) == 1 and " " in words[0]
    return words[0].split(" ", 1)[0] if title else words[0].rpartition("/")[2] or words[0]
