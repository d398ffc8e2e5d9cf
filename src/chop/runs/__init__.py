"""How long runs are done: pools of workers, progress, and fingerprints of what was run."""
