# What `import ace.evaluation` offers; loaded on first use.
from .arms import ARMS as ARMS
from .episodes import Attempt as Attempt
from .models import ModelChoice as ModelChoice, ModelSource as ModelSource
from .report.models import EvaluateReport as EvaluateReport
from .runner import Caps as Caps, evaluate as evaluate
from .study import Study as Study, StudyConfig as StudyConfig, StudyObserver as StudyObserver
