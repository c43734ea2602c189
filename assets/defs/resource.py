"""The platform as a Dagster resource, and what a run leaves to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import PrivateAttr

from assets.epoch.platform import Platform, current

if TYPE_CHECKING:
    from infra.epochs.stages.plan import Rebuild


class PlatformResource(dg.ConfigurableResource):
    """Gives steps the platform of their process; its Spark session opens when a step first asks for it."""

    rebuild: dict[str, int | None] | None = None
    """Nodes that are recomputed from offset 0, with the grace (ms) in place of the declared one."""
    _shown: set[str] = PrivateAttr(default_factory=set)
    _judged: bool = PrivateAttr(default=False)

    @property
    def shown(self) -> set[str]:
        """Nodes with nothing new whose verdicts this run has recorded."""
        return self._shown

    def requested_rebuild(self, node: str) -> Rebuild | None:
        """The rebuild that was asked for of a node."""
        from infra.epochs.stages.plan import Rebuild

        return Rebuild(self.rebuild[node]) if self.rebuild is not None and node in self.rebuild else None

    def list_verdicts(self) -> None:
        """Note that this run has judged, so that the index of Data Docs is written at its end."""
        self._judged = True

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Bring the index of Data Docs up to date, once per run; no run fails by that."""
        if not self._judged:
            return
        try:
            from expectations.gx.data_docs import write_index

            write_index(current().settings.reports / "gx")
        except Exception:  # whatever a template or a disk may raise
            if context.log is not None:
                context.log.exception("the index of Data Docs is not up to date")

    @property
    def platform(self) -> Platform:
        """The platform of the process."""
        return current()
