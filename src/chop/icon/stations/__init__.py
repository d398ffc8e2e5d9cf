"""Networks of stations in a graph: air quality."""
