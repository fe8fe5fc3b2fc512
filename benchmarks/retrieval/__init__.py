"""Whether the right lesson is found."""
