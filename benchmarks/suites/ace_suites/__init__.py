"""Public benchmarks as suites: WorkBench with its recorded runs, and BFCL's conversations."""
