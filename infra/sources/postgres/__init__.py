"""Tables of PostgreSQL as sources: a snapshot, then changes, peeked at and landed, and read by Spark from there."""
