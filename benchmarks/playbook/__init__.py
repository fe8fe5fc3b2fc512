"""The book: speed, duplicates, merging, privacy, languages."""
