"""The demo over topics, beside the one over files."""
