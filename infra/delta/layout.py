"""Locations of the Delta tables of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NodeTables:
    """Locations of one node's tables, below the folder or URL ``tables``."""

    tables: str
    pipeline: str
    node: str

    def _at(self, name: str) -> str:
        return f"{self.tables.rstrip('/')}/{self.pipeline}/{self.node}/{name}"

    @property
    def changelog(self) -> str:
        """The records."""
        return self._at("changelog")

    @property
    def table(self) -> str:
        """The fold of the changelog, if the node is a table."""
        return self._at("table")

    @property
    def late(self) -> str:
        """Records that a join dropped as late."""
        return self._at("late")

    @property
    def memory(self) -> str:
        """Operator state from epoch to epoch that no changelog contains."""
        return self._at("memory")

    @property
    def dead_letter(self) -> str:
        """Rows of a source's files that are not records."""
        return self._at("dead_letter")

    @property
    def rejected(self) -> str:
        """Bad rows of a source's newest epoch that was refused because of their number."""
        return self._at("rejected")

    @property
    def quarantine(self) -> str:
        """Rows of refused epochs."""
        return self._at("quarantine")

    def shadow(self, topic: str) -> str:
        """Differences from the output topic of an application."""
        return self._at(f"shadow/{topic}")

    @property
    def rebuild(self) -> str:
        """The command that recomputes the node."""
        return f"rivermeet rebuild {self.pipeline} --select {self.node}"

    def app_id(self, operation: str, incarnation: int) -> str:
        """Delta's transaction id of one kind of write: with its version, it takes effect once."""
        return f"{self.pipeline}/{self.node}/{operation}/{incarnation}"
