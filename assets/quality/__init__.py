"""Invariants of an epoch: their relations, their verdicts."""
