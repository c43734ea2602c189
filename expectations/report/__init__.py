"""The quality report as a page."""
