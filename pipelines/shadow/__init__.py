"""Applications that compute the same as a node, and are compared with it."""
