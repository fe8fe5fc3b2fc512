"""In DSPy's place: its tests, replies, traces, limits."""
