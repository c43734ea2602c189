"""What the terminal shows: a pipeline's status, how far its sources are behind, the first rows of its results."""
