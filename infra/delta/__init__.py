"""Delta tables: where they lie, reads at versions, commits, folds, maintenance."""
