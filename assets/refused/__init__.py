"""Epochs that their audit refused: their rows, and what a person decides."""
