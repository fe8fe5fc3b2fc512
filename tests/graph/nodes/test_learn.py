"""`LearnNode`."""

from __future__ import annotations

from typing import Any

import pytest
from graph.graphs import look

from ace import ReActGenerator
from ace.graph.nodes import (
    LearnNode,
)
from ace.learner import Learner
from ace.testing import ScriptedLM, decision


def finishing(*decisions: Any) -> ScriptedLM:
    return ScriptedLM([*decisions, decision("finish", answer="done")])


def test_a_run_teaches_once_also_when_its_node_runs_again(book):
    agent = ReActGenerator(tools=[look], lm=finishing(decision("look", n=1)))
    learner = Learner(book)
    run = agent.run("Look at 1")
    node = LearnNode(learner, score=lambda run: True)
    first = node.invoke({"run": run})
    assert first["playbook_revision"] > 0
    assert node.invoke({"run": run}) == first
    with pytest.raises(ValueError, match="needs feedback"):
        LearnNode(learner).invoke({"run": run})
