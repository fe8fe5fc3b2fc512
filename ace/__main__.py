"""``python -m ace``."""

from ace.cli import main

if __name__ == "__main__":  # and not in a process that this one starts
    main()
