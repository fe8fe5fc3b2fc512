"""Ten of DSPy's optimizers and ours over a `ReActGenerator`: ``python -m benchmarks.dropin.optimizers OUT.json``.

Each compiles an agent with scripted models (so nothing is said about quality), and what comes out is saved, loaded into a
fresh agent and run. Counted are the optimizers whose program answers as it should afterwards. `BootstrapFewShotWithOptuna`
is not among them: it needs a demonstration for every predictor, and `extract` is not asked when `finish` brings the outputs.
"""

from __future__ import annotations

import logging
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy

from ace import Playbook, ReActGenerator
from ace.optimization import ACE
from ace.playbook import CallableEmbedder
from ace.testing import FunctionLM, decision
from ace.testing.engine import Prompt, render_reply
from ace.tools import tool
from benchmarks.command import command

TOY = CallableEmbedder("toy", lambda texts: [[float(ord(text[0])), 1.0] for text in texts])
VALUES = {"a": "1", "b": "2", "c": "3"}


@tool(read_only=True)
def lookup(key: str) -> str:
    """Look a key up."""
    return VALUES.get(key, "unknown")


def answer(prompt: Prompt) -> str:
    """Look the question up, and propose an instruction to whoever asks for anything else."""
    wants = prompt.wants
    if "tool_calls" in wants:
        if prompt.steps:
            return decision("finish", answer=prompt.steps[-1]["observation"])
        return decision("lookup", key=prompt.fields.get("question", "a")[:1])
    texts = {
        "answer": "?",
        "reasoning": "r",
        "module_advice": '{"agent.react": "Look it up."}',
        "basic_instruction": "x",
    }
    return render_reply(**{name: texts.get(name, "Look it up, then finish.") for name in wants or ("answer",)})


def metric(example: Any, prediction: Any, trace: Any = None, *_: Any) -> float:
    """Check whether the answer is right."""
    return float(prediction.answer == example.answer)


def feedback(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    """Check the same for GEPA."""
    return dspy.Prediction(score=metric(gold, pred), feedback=f"expected {gold.answer}")


def data() -> list[dspy.Example]:
    """Make twelve questions."""
    pairs = [*VALUES.items()] * 4
    return [dspy.Example(question=key, answer=value).with_inputs("question") for key, value in pairs]


def agent() -> ReActGenerator:
    """Make a fresh student."""
    return ReActGenerator("question -> answer", tools=[lookup], max_iters=4)


def optimizers(lm: Any) -> dict[str, Callable[[], Any]]:
    """Name to what compiles a fresh agent."""
    few, train = {"max_bootstrapped_demos": 1, "max_labeled_demos": 0}, data()
    tele = dspy.teleprompt
    vectorizer = dspy.Embedder(lambda texts: [[float(ord(text[0])), 1.0] for text in texts], caching=False)
    return {
        "LabeledFewShot": lambda: dspy.LabeledFewShot(k=1).compile(agent(), trainset=train),
        "BootstrapFewShot": lambda: dspy.BootstrapFewShot(metric=metric, **few).compile(agent(), trainset=train),
        "BootstrapRS": lambda: dspy.BootstrapFewShotWithRandomSearch(
            metric=metric, num_candidate_programs=1, num_threads=1, **few
        ).compile(agent(), trainset=train[:4], valset=train[:4]),
        "ACE": lambda: ACE(metric, playbook=Playbook(embedder=TOY), progress=False).compile(
            agent(), trainset=train[:4]
        ),
        "KNNFewShot": lambda: dspy.KNNFewShot(k=2, trainset=train, vectorizer=vectorizer, metric=metric, **few).compile(
            agent()
        ),
        "Ensemble": lambda: dspy.Ensemble(reduce_fn=dspy.majority, size=2).compile([agent(), agent()]),
        "COPRO": lambda: dspy.COPRO(prompt_model=lm, metric=metric, breadth=2, depth=1).compile(
            agent(), trainset=train[:3], eval_kwargs={"num_threads": 1, "display_progress": False}
        ),
        "MIPROv2": lambda: dspy.MIPROv2(
            metric=metric, prompt_model=lm, task_model=lm, auto=None, num_candidates=2, num_threads=1, **few
        ).compile(agent(), trainset=train[:6], valset=train[:3], num_trials=1, minibatch=False),
        "SIMBA": lambda: dspy.SIMBA(
            metric=metric, bsize=4, num_candidates=2, max_steps=1, max_demos=1, prompt_model=lm, num_threads=1
        ).compile(agent(), trainset=train),
        "GEPA": lambda: dspy.GEPA(
            metric=feedback, max_metric_calls=20, reflection_lm=lm, reflection_minibatch_size=2, num_threads=1
        ).compile(agent(), trainset=train[:4], valset=train[:3]),
        "InferRules": lambda: tele.InferRules(
            metric=metric, num_candidates=1, num_rules=1, num_threads=1, **few
        ).compile(agent(), trainset=train[:6], valset=train[:3]),
    }


def works(program: Any, folder: Path) -> bool:
    """Check whether a compiled program answers, also after it was saved and loaded."""
    if program(question="b").answer != "2":
        return False
    if not isinstance(program, ReActGenerator):  # an ensemble is no agent
        return True
    program.save(folder / "state.json")
    loaded = agent()
    loaded.load(folder / "state.json")
    return loaded(question="c").answer == "3"


def main() -> dict[str, Any]:
    """Compile, check, and return the report."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    lm = FunctionLM("bench/optimizers", answer)
    outcome: dict[str, str] = {}
    with dspy.context(lm=lm, trace=[]):
        for name, compile_one in optimizers(lm).items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    outcome[name] = "works" if works(compile_one(), Path(folder)) else "answers wrongly"
                except Exception:  # counted, and shown
                    outcome[name] = traceback.format_exc().strip().splitlines()[-1]
    return {"works": sum(value == "works" for value in outcome.values()), "outcome": outcome}


if __name__ == "__main__":
    command(main)
