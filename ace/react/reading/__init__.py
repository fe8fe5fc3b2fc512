"""Reads the calls in a model's reply, in whatever shape the model wrote them.

Headings, labels (``Action: ...``), tags, JSON objects (bare, fenced, in prose, in lists), and calls as code are understood;
what was cut off inside an argument is never completed. Bounded in time and depth, whatever the text.
"""
