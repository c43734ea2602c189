"""What may be declared: every verb's checks, and the frozen value that comes out.

A message names the pipeline, the node, and what would do.
"""
