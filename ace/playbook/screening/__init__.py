"""The screen: holds suspicious bullets back until a person has reviewed them."""

from ace.playbook.screening.screen import Verdict, screen

__all__ = ["Verdict", "screen"]
