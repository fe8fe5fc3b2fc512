"""Whether intervals hold, and evaluations survive."""
