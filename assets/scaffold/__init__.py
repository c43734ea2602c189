"""What `rivermeet init` writes."""
