"""The wheel that users install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rivermeet.infra.settings import PROJECT


@pytest.fixture(scope="package")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a copy of what git tracks, so that no build folder is left in the checkout."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-cf", source / "all.tar", "--null", "-T", "-"], cwd=PROJECT, input=tracked, check=True)
    subprocess.run(["tar", "-xf", source / "all.tar", "-C", source], check=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", made, source]
    subprocess.run(build, check=True, timeout=300)
    return next(made.glob("*.whl"))
