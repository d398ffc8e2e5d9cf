"""The operator agent: it looks, probes, proposes, weighs and says; no problem is named here."""
