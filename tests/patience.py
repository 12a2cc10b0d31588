"""How long a test waits for what comes within a second on an idle machine."""

from __future__ import annotations

DEADLINE_S = 120.0
"""Only a test that fails takes this long; with thirty programs on two cores, some that pass take a minute."""
