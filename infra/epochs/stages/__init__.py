"""The stages of an epoch that touch tables: plan, write, commit, fold, record."""
