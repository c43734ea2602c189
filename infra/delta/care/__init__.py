"""Maintenance of stored tables: what may go, and what still has to stay."""
