"""What joins of tables share: caches, versions, histories."""
