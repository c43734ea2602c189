"""``rivermeet sql``: what is committed, as DuckDB reads it in this process."""
