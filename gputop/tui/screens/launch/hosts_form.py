"""The form's fields when the launch screen starts on hosts: the hosts, instead of this machine's GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.hosts.names import parse_hosts
from gputop.tui.drawing.line import Span, clean
from gputop.tui.screens.launch import form
from gputop.tui.screens.launch.entries import SBATCH
from gputop.tui.widgets.form import Field

HOSTS = "hosts"
_OF_THIS_MACHINE = ("gpus", "none", form.COMPARE, SBATCH)


def fields_for_hosts(fields: Sequence[Field], hosts: str) -> list[Field]:
    """Return an entry's fields with the hosts in place of this machine's GPUs; ``hosts`` is a list such as "a,n[1-8]"."""
    kept = [field for field in fields if field.name not in _OF_THIS_MACHINE and not field.name.startswith(form.GPU_PREFIX)]
    where = Field(HOSTS, "Hosts", "text", hosts, help="they start it as one run, all or none: gpu1,gpu[3-8]", check=parse_hosts)
    # Where Start is the first field, Enter begins there.
    at = next((place for place, field in enumerate(kept) if field.name == form.START), 0) or 1
    return [*kept[:at], where, *kept[at:]]


def update_start(fields: Sequence[Field]) -> None:
    """Say next to Start where it starts."""
    hosts = next((str(field.value).strip() for field in fields if field.name == HOSTS), "")
    for field in fields:
        if field.name == form.START:
            field.detail = (Span(clean(f"F5  on {hosts}, as one run"), "dim"),)
