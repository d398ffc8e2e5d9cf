"""Networks of functions on points: conservation laws, mean-field control."""
