"""What of DSPy the package uses: public names alone, and nothing that DSPy 3.5 takes away."""

from __future__ import annotations

from benchmarks import structure

WITH_ITS_JOBS = "dspy._vendor.lm15.serde."
"""The journal of a job stores requests; DSPy shows no public way to write one as JSON."""


def test_finds_what_will_not_last():
    names = [
        "litellm",
        "dspy.predict.react.ReAct",
        "dspy.x._y",
        "dspy",
        "dspy.utils.exceptions",
        "jsonschema.validators",
    ]
    assert [name for name in names if structure._passing(name)] == ["litellm", "dspy.predict.react.ReAct", "dspy.x._y"]


def test_uses_public_names_of_dspy_alone():
    assert [found for found in structure.passing_names() if WITH_ITS_JOBS not in found] == []
