"""The documented invariants: sentence, source, and the query that finds violations."""
