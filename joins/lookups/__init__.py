"""Look-ups in time: a key's row as of a place in the order, and streams that look up global tables."""
