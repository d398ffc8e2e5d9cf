"""Numbers by themselves: compiled and spectral kernels, formulas, projections on the simplex."""
