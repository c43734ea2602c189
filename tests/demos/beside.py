"""A project for as long as a demo lasts: on the user's engine, with a folder of its own that is gone at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rivermeet.assets.project import Project
from rivermeet.infra.engine import session, warm


@contextmanager
def beside(project: Project, name: str, **settings: Any) -> Iterator[Project]:
    """A project whose other settings are as given; an engine that was not there before is stopped afterwards."""
    theirs = project.settings
    theirs.home.mkdir(parents=True, exist_ok=True)
    was_running = theirs.engine != "auto" or warm.status(theirs).state is not None
    try:
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=theirs.home) as folder:
            home = Path(folder)
            own = replace(theirs, home=home, tables=str(home / "tables"), data=str(home / "data"), **settings)
            yield replace(project, settings=own)
    finally:
        if not was_running:
            session.release()
            if not warm.status(theirs).in_use:
                warm.stop(theirs)
