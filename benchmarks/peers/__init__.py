"""Other libraries beside ours."""
