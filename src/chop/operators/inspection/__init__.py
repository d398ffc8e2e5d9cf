"""What the examples of a prompt show, read off without any model: claims with their evidence, and numbers."""
