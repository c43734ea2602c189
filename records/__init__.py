"""The record shape, at the bottom: what a changelog is, and what its table is."""
