"""What the examples of a prompt show, and how a model answers at them: claims with evidence, and numbers."""
