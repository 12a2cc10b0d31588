"""Every setting: its key in the settings file, what it may be, and the option that replaces it for one start.

``--help``, the shells' completion, docs/settings.md and the check of the file follow from this table. Imports only
``values``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gputop.settings.values import THEMES

DENSITIES = ("auto", "full", "compact")
MAX_SMOOTHING = 0.99
"""At 1, a curve would never leave its first value."""


class Setting(NamedTuple):
    """What ``--help`` and the page of settings say about one, and what its value may be."""

    what: str
    allowed: str
    option: str = ""
    """The option's name in the parser's result, if it is not the key; "-" if only the screen changes it."""
    off: str = ""
    """The same of the option that turns it off for one start, if its own does not."""


_YES_NO = "true or false"
_OF_HOSTS = "no_host"

SETTINGS: Mapping[str, Setting] = {
    "interval_s": Setting(
        "time between readings: 1, 500ms, 2s (default 1s)", "a number of seconds from 0.1 to 3600", option="interval"
    ),
    "gpus": Setting("only these GPUs: comma-separated indices or UUIDs, or all", "a list of GPU indices or UUIDs"),
    "virtual": Setting(
        "virtual GPUs (CPU work) instead of real ones", "true, false, or a number of GPUs from 1", off="no_virtual"
    ),
    "nccl_ras": Setting("ask NCCL's RAS service about runs that seem to hang (default)", _YES_NO, option="ask_nccl"),
    "host": Setting(
        "hosts to use instead of this machine, over ssh: a,me@b,n[1-8]",
        'a list of hosts, such as "a,me@b,n[1-8]"',
        off=_OF_HOSTS,
    ),
    "hosts": Setting(
        "a file of hosts: one name or list per line", "the path of a file with one host or list per line", off=_OF_HOSTS
    ),
    "slurm": Setting("the nodes of a Slurm job, through srun", "the id of a Slurm job", off=_OF_HOSTS),
    "pods": Setting(
        "the pods with these labels, e.g. app=train, through kubectl", 'labels of pods, such as "app=train"', off=_OF_HOSTS
    ),
    "via": Setting(
        "how to reach a host, e.g. 'kubectl exec -i {host} --' (default ssh)", "a command of this machine with {host} in it"
    ),
    "remote": Setting("the gputop command on the hosts, if it is not on PATH", "a command in one line"),
    "prometheus": Setting(
        "the GPUs that this Prometheus server knows, e.g. http://prom:9090",
        'the URL of a Prometheus server, such as "http://prom:9090"',
        off=_OF_HOSTS,
    ),
    "prometheus_auth": Setting(
        "a file with its user:password, or a token", "the path of a file with user:password, or a token", off=_OF_HOSTS
    ),
    "theme": Setting("colors (auto follows COLORFGBG and TERM; colorblind: blue and orange)", f"one of {', '.join(THEMES)}"),
    "ascii": Setting("draw with ASCII characters only", _YES_NO),
    "color": Setting("colors (NO_COLOR=1 also turns them off)", _YES_NO),
    "mouse": Setting("use the mouse; without it, the terminal can select text", _YES_NO),
    "readonly": Setting("never start or stop anything", _YES_NO),
    "density": Setting("rows of the GPUs", f"one of {', '.join(DENSITIES)}", option="-"),
    "log_axis": Setting("logarithmic y axis for the loss", _YES_NO, option="-"),
    "smoothing": Setting("weight of the past in smoothed curves", f"a number from 0 to {MAX_SMOOTHING}", option="-"),
    "per_rank": Setting("one curve per rank, not mean and spread", _YES_NO, option="-"),
}

COMBINED_WITH_NONE = {"slurm": ("host", "hosts", "pods"), "pods": ("host", "hosts")}
"""A setting that names the hosts and how to reach them, and those that it cannot be combined with."""
