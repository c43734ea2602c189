"""Write every golden plan again (``python -m tests.joins.plans``): the difference is then for review."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from rivermeet.infra.engine.session import new_session, session
from rivermeet.infra.settings import Settings
from tests.joins.plans import FOLDER
from tests.joins.plans.epochs import NODES, TYPES, Planner
from tests.joins.plans.skeleton import difference
from tests.world import World


def main() -> None:
    """Write them, and say which are other than before."""
    spark = session(Settings.from_env())
    with TemporaryDirectory() as root:
        planner = Planner(World(Path(root), spark, new_session(spark), TYPES, as_sources_do=True))
        for file in FOLDER.glob("*.txt"):
            if file.stem not in NODES:
                file.unlink()
                print(f"{file.stem}: gone")
        for name in NODES:
            file, found = FOLDER / f"{name}.txt", planner.golden(name)
            new = difference(found, file.read_text()) if file.exists() else "new"
            file.write_text(found)
            print(f"{name}: {new or 'as it was'}", flush=True)


if __name__ == "__main__":
    main()
