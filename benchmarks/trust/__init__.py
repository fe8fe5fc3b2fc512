"""Attacks on what is learned, and honest runs beside them."""
