"""What keeps a bullet from being shown before a person has looked at it."""

from ace.playbook.screening.screen import Verdict, screen

__all__ = ["Verdict", "screen"]
