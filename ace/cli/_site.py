"""What a worker of a cluster makes of the words of a command line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ace.evaluation.cluster import Site

BUILD = "ace.cli._site:site"


def site(told: Mapping[str, Any]) -> Site:
    """The suite, the models and the agents of `ace evaluate`."""
    from ace.cli._lm import load_suite_for, with_others
    from ace.evaluation.attempts import pools_of
    from ace.evaluation.cluster import Site
    from ace.optimization import load_optimized

    suite = load_suite_for(told["suite"], told["lm"], told["judge_lm"], told["api_base"], told["models"].values())
    choice = with_others(told["lm"], told["models"], suite, told["api_base"])
    prepare = partial(load_optimized, Path(told["program"])) if told["program"] else None
    return Site(suite, choice.lm_for, pools_of(suite, choice.policy, prepare), choice.others)
