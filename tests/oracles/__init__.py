"""Literal, slow, float64 numpy versions of the paper's algorithms: one prompt at a time."""
