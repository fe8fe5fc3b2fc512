# What `import ace.suites` offers; loaded on first use.
from .check import check_suite as check_suite
from .examples import ExamplesSuite as ExamplesSuite
from .files import FileSuite as FileSuite
from .protocol import GoldCall as GoldCall, GoldenSuite as GoldenSuite, Suite as Suite, SuiteTask as SuiteTask
from .registry import load_suite as load_suite
from .splits import halves as halves, split as split
