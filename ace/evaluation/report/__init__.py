"""From the runs of an evaluation to its report, as data, Markdown and HTML."""
