"""A real sshd that wants a key, a password and a code: keyboard-interactive by PAM, with a service of its own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import pytest

from tests.hosts.machines.sshd import SSHD, Lab

PASSWORD, CODE = "sesame", "314159"
PASSWORD_QUESTION, CODE_QUESTION = "Password:", "STRESS Password:"
"""``pam_exec`` asks for the password; of the modules that come with PAM, only ``pam_stress`` asks a second time."""
SERVICES = Path("/etc/pam.d")
_MODULES = ("pam_exec", "pam_stress", "pam_permit")


def missing() -> str | None:
    """Return why there can be no such sshd here; None if there can be."""
    if SSHD is None:
        return "sshd is not installed (Debian: openssh-server)"
    if os.geteuid() != 0 or not os.access(SERVICES, os.W_OK):
        return f"only root can add a service to {SERVICES}"
    for name in _MODULES:
        if not any(glob(f"{place}/security/{name}.so") for place in ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/lib/*")):
            return f"{name} is not installed (Debian: libpam-modules)"
    return None


@contextmanager
def two_factors(lab: Lab, name: str, *more: str, slow_s: int = 0) -> Iterator[int]:
    """Serve a host that asks for both after the key; yield its port. Each question comes ``slow_s`` seconds late.

    Skip the test where that is not possible.
    """
    reason = missing()
    if reason is not None or SSHD is None:
        pytest.skip(str(reason))
    # sshd takes the name by which it was started as that of its PAM service.
    program = lab.folder / f"gputop-test-{os.getpid()}-{name}"
    program.symlink_to(SSHD)
    check = lab.folder / f"check_{name}"
    check.write_text(f'#!/bin/sh\nsleep {slow_s}\ntest "$(tr -d \'\\000\')" = "$1"\n')
    check.chmod(0o755)
    given = f"auth requisite pam_exec.so quiet expose_authtok {shlex.quote(str(check))}"
    service = SERVICES / program.name
    service.write_text(
        f"{given} {PASSWORD}\nauth required pam_stress.so\n{given} {CODE}\n"
        "account required pam_permit.so\nsession required pam_permit.so\n"
    )
    try:
        wanted = (
            "LogLevel VERBOSE",
            "UsePAM yes",
            "KbdInteractiveAuthentication yes",
            "AuthenticationMethods publickey,keyboard-interactive",
        )
        port = lab.serve(name, *wanted, "PermitRootLogin yes", *more, program=str(program))
        with (lab.folder / "known").open("a") as known:
            known.write(f"[127.0.0.1]:{port} {(lab.folder / f'host_{name}.pub').read_text()}")
        yield port
    finally:
        service.unlink()
