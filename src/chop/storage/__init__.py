"""What is kept: files that appear whole, logs that only grow, files that anyone may have written."""
