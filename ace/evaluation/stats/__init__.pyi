# What `import ace.evaluation.stats` offers; loaded on first use.
from .clustered import (
    Estimate as Estimate,
    mean as mean,
    ratio as ratio,
    share as share,
    share_closed as share_closed,
    share_interval as share_interval,
    spread as spread,
)
from .differences import (
    PairedDifference as PairedDifference,
    difference as difference,
    paired_difference as paired_difference,
)
from .paired import (
    compare as compare,
    holm as holm,
    mcnemar as mcnemar,
    sign_test as sign_test,
    smallest_effect as smallest_effect,
)
from .repeats import calibration as calibration, learning_curve as learning_curve, pass_hat_k as pass_hat_k
