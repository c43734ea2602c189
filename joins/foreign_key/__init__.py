"""table ⋈ table on a foreign key, and one-to-many."""
