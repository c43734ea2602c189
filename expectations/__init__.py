"""Documented invariants: what they say, the query that finds violations, verdicts, history.

To add an invariant: one entry in the file of its kind (``stream_rules``, ``table_rules``,
``changelog_rules``, ``late_rules``), and a planted violation in ``tests/expectations`` that it catches.
"""
