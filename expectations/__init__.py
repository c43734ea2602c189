"""Documented invariants: what they say, the query that finds violations, verdicts, history.

To add an invariant: a function with `Rule` in the rules file of its family or subject, and a violation that it finds in
``tests/expectations/planted.py``.
"""
