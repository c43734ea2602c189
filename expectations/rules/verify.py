"""What ``rivermeet verify`` proves, kept in the history like an invariant; it has no query, and no run judges it.

A verified epoch is one more replay beside the fold that each run compares:

    fold_equals_table   every epoch           the table is the fold of its changelog
    verify              when requested        the changelog is what its inputs give, and the table its fold

Held by ``tests/expectations/test_report_checks.py`` and ``tests/assets/quality/test_planted.py``.
"""

from __future__ import annotations

from expectations.invariant import ANY, OURS, Invariant

VERIFY = Invariant(
    id="verify",
    sentence="Computed once more from all that it has read, a node has the very rows that it has committed.",
    document=OURS,
    section="epochs, verify",
    families=ANY,
    profiles=None,
    needs_table=False,
    severity="critical",
    blocking=False,
    stage="verify",
    violations=lambda node: "",
)
