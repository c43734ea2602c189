"""Maintenance of stored tables: what may be removed, and what has to stay."""
