"""Applications that compute what a node computes, and are compared with it."""
