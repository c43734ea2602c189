"""Delta tables: locations, reads at versions, commits, folds, maintenance."""
