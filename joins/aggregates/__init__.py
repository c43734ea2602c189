"""Aggregates of tables and of windowed streams."""
