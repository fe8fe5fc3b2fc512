from ace_suites.workbench.rates import estimate
from conftest import WORKBENCH, needs_workbench

from ace.testing.rates import RATES_FILE


@needs_workbench
def test_the_committed_rates_are_the_estimated_ones():
    assert RATES_FILE.read_text(encoding="utf-8") == estimate(WORKBENCH)
