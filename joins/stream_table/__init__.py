"""stream ⋈ table: look-ups of the table, one file for each profile."""
