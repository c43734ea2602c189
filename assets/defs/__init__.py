"""Dagster definitions: what is declared, as assets and checks."""
