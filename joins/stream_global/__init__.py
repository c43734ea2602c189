"""stream ⋈ global table."""
