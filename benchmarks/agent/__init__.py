"""The run-time: calls, recorded decisions, prompts, conversations, overhead."""
