"""Generates docs/settings.md from the table of settings and the parser. ``python -m gputop.cli.settings_page`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from gputop.cli.parser import build_parser
from gputop.settings.table import SETTINGS, Setting
from gputop.settings.values import Settings

PAGE = "docs/settings.md"
NO_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "print something other than the dashboard": ("once", "json", "stream", "count", "version", "help"),
    "names the settings file": ("config",),
}
"""Why an option is not a setting -> the names of such options in the parser's result."""
_HEAD = """\
# Settings

<!-- Written by `make docs` from gputop/settings/table.py: change the table, not this page. -->

The dashboard reads its settings from a TOML file: `$GPUTOP_CONFIG`, else `$XDG_CONFIG_HOME/gputop/config.toml`, else
`~/.config/gputop/config.toml`. `--config FILE` names another one. `F2` opens the settings screen, which changes some of them.
To change the others, edit the file:

```
interval_s = 2
theme = "light"
host = "gpu[1-4]"        # gputop shows these four, and gputop --no-host this machine
remote = "/opt/gputop/bin/gputop"
```

An option on the command line replaces the setting for one start. If a value cannot be used, gputop says so at start, with the
file, the line, the setting and what it may be, and uses the default.

| setting | may be | default | meaning | options |
|---|---|---|---|---|
"""
_TAIL = """\

- Paths begin at the folder of the settings file; `~` is the home directory.
- An option that names machines (`-H`, `--hosts`, `--slurm`, `--pods`, `--prometheus`, `--no-host`) replaces all settings that
  name some. `via` and `remote` also apply to hosts that an option names. `prometheus_auth` is sent only to the server that
  `prometheus` names.
- `slurm` and `pods` also say how to reach the hosts. They cannot be combined with `host`, `hosts` or each other, and `via` does
  not apply to them. `prometheus` can be combined with each of these.
- If the hosts cannot be found, for example because a Slurm job has ended, gputop says so and shows this machine.
- `gpus` and `virtual` are about this machine; they do not apply to hosts. `-g all` shows all GPUs.
- The settings are those of the dashboard. `--once`, `--stream` and the commands use only `nccl_ras`: a script must not depend
  on a user's settings, and a host that is watched must not watch others because of its own settings file. They, too, say on
  standard error what is wrong with the file.
"""


def page() -> str:
    """Return the page."""
    options: dict[str, list[str]] = {}
    for action in build_parser("")._actions:
        options.setdefault(action.dest, []).extend(action.option_strings)
    rows = (_row(name, setting, options) for name, setting in SETTINGS.items())
    no_settings = "; ".join(
        f"{', '.join(_code(options[name][-1]) for name in names)} {reason}" for reason, names in NO_SETTINGS.items()
    )
    return f"{_HEAD}{''.join(rows)}{_TAIL}- Some options are not settings: {no_settings}.\n"


def _row(name: str, setting: Setting, options: Mapping[str, list[str]]) -> str:
    flags = ", ".join(map(_code, options.get(setting.option or name, []) + options.get(setting.off, []))) or "none"
    return f"| `{name}` | {setting.allowed} | {_default(name)} | {setting.what} | {flags} |\n"


def _code(text: str) -> str:
    return f"`{text}`"


def _default(name: str) -> str:
    value: Any = getattr(Settings(), name)
    if value is None or value == ():
        return "unset"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.stdout.write(page())
