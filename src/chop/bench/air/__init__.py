"""The air-quality benchmark: a network trained in one region, carried to another, and what a program adds."""
