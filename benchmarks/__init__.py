"""What is measured: `python -m benchmarks verify`, `gate`, `sensitivity` and `evidence`."""
