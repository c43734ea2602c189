"""A process that runs part of a pipeline again and again, as `rivermeet run` does, until all is delivered.

    python -m tests.infra.epochs.again STOP PIPELINE NODE...

The run that begins after the file STOP is there is the last one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rivermeet.assets.defs.runs import run_pipeline
from rivermeet.assets.project import Project


def main(stop: Path, pipeline: str, selected: list[str]) -> bool:
    """Run until asked to stop; whether all runs were green."""
    project = Project.find(say=lambda line: print(line, flush=True))
    declared, green, last = project.pipeline(pipeline), True, False
    while green and not last:
        last = stop.exists()
        green = run_pipeline(project, declared, selected)
    return green


if __name__ == "__main__":
    sys.exit(0 if main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]) else 1)
