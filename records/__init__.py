"""The record shape: the columns of a changelog, and the table that is its fold."""
