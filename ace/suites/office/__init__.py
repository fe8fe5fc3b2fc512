"""`office`: our own suite, generated from a seed: 28 tools over 5 domains, 25 families, 200 tasks with gold calls."""

from ace.suites.office.suite import OfficeSuite
from ace.suites.office.tools import OfficeTools
from ace.suites.office.world import OfficeWorld, build_world

__all__ = ["OfficeSuite", "OfficeTools", "OfficeWorld", "build_world"]
