"""`office`: our own suite, generated from a seed: 28 tools over 5 domains, 25 families, 200 tasks with gold calls."""

from ace.evaluation.office.suite import OfficeSuite
from ace.evaluation.office.tools import OfficeTools
from ace.evaluation.office.world import OfficeWorld, build_world

__all__ = ["OfficeSuite", "OfficeTools", "OfficeWorld", "build_world"]
