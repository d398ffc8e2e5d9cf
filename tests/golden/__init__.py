"""Golden answers: see README.md."""
