"""The field's own networks: checkpoints read safely, their architecture, the same answers sooner."""
