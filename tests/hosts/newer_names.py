"""What Python 3.9 and 3.10 added to the language's library, as far as a look at a module's syntax tree can find it.

mypy, told that gputop runs on 3.10, finds what is newer than that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

MODULES = ("graphlib", "zoneinfo")
NAMES = {
    "argparse": "BooleanOptionalAction",
    "ast": "unparse",
    "asyncio": "to_thread",
    "builtins": "aiter anext EncodingWarning",
    "contextlib": "aclosing AsyncContextDecorator",
    "dataclasses": "KW_ONLY",
    "functools": "cache",
    "gc": "is_finalized",
    "importlib.metadata": "packages_distributions",
    "importlib.resources": "as_file files",
    "inspect": "get_annotations",
    "io": "text_encoding",
    "itertools": "pairwise",
    "math": "lcm nextafter ulp",
    "os": "eventfd eventfd_read eventfd_write pidfd_open splice waitstatus_to_exitcode",
    "random": "randbytes",
    "signal": "pidfd_send_signal",
    "socket": "recv_fds send_fds",
    "statistics": "correlation covariance linear_regression",
    "sys": "orig_argv platlibdir stdlib_module_names",
    "threading": "getprofile gettrace",
    "types": "EllipsisType NoneType NotImplementedType UnionType",
    "typing": "Annotated Concatenate ParamSpec ParamSpecArgs ParamSpecKwargs TypeAlias TypeGuard is_typeddict",
}
METHODS = ("bit_count", "hardlink_to", "is_relative_to", "randbytes", "removeprefix", "removesuffix", "with_stem")
"""Of strings, numbers and paths, whose types a syntax tree does not tell."""
ARGUMENTS = {
    "bisect bisect_left bisect_right insort insort_left insort_right": "key",
    "dataclass": "kw_only match_args slots",
    "field": "kw_only",
    "get_type_hints": "include_extras",
    "glob iglob": "root_dir dir_fd",
    "md5 new sha1 sha256": "usedforsecurity",
    "Popen call check_call check_output run": "extra_groups group pipesize umask user",
    "realpath": "strict",
    "shutdown": "cancel_futures",
    "TemporaryDirectory": "ignore_cleanup_errors",
    "write_text": "newline",
    "zip": "strict",
}
"""Functions and methods -> their keyword arguments."""
ONE_ARGUMENT = ("format_exception", "format_exception_only", "print_exception")
"""Functions of ``traceback`` that needed the type and the traceback, too."""


_ATTRIBUTES = {*METHODS, *" ".join(NAMES.values()).split()}


def newer(tree: ast.Module) -> Iterator[str]:
    """Name what a module uses and Python 3.8 lacks. An attribute counts if its module is imported under its own name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            added = NAMES.get(node.module, "").split()
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name in added)
            if node.module in MODULES:
                yield node.module
        elif isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            owner = ast.unparse(node.value)
            if node.attr in METHODS or node.attr in NAMES.get(owner, "").split():
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.Name) and node.id in NAMES["builtins"].split():
            yield node.id
        elif isinstance(node, ast.Call):
            yield from _arguments(node)


def _arguments(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    given = [keyword.arg for keyword in call.keywords]
    for functions, added in ARGUMENTS.items():
        if name in functions.split():
            yield from (f"{name}({argument}=)" for argument in given if argument in added.split())
    if name in ONE_ARGUMENT and len(call.args) == 1 and not call.keywords:
        yield f"{name}(error)"
