"""A node's epoch, from plan to verdict."""
