"""table ⋈ table on the key."""
