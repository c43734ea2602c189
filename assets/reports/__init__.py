"""The quality report: made, and served."""
