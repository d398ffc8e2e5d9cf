"""The paper's tables and figures, on any frozen network, from one command. Loaded when first used."""
