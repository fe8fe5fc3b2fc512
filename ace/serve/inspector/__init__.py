"""A playbook in a browser: find lessons, see why they come, review them, follow what changes."""
