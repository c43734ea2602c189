"""Tables of PostgreSQL as sources: a snapshot, then changes, which are landed and read by Spark."""
