"""Source systems of the pipelines that come with the project."""
