"""Packages that only some tests need: torch takes 2 s of CPU, which each test process would spend while it collects."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

import pytest


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip a test, or all of a module, unless these are installed; its processes import them, not this one."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def imports(*modules: str) -> Callable[[pytest.FixtureRequest], None]:
    """Return a fixture that imports these for its module before its first test, or skips its tests."""

    @pytest.fixture(scope="module", autouse=True)
    def import_modules(request: pytest.FixtureRequest) -> None:
        for name in modules:
            setattr(request.module, name, pytest.importorskip(name))

    return import_modules
