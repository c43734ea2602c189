"""stream ⋈ stream: one file per profile."""
