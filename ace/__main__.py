"""``python -m ace``."""

from ace.cli import main

main()
