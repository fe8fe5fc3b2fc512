"""A calculator agent: one tool, one question.

    python examples/calculator_agent.py ["What is 17% of 240?"] [--lm openai/llama3.2 --api-base http://localhost:11434/v1]

Without ``--lm`` a scripted stand-in answers, so that the example runs anywhere.
"""

from __future__ import annotations

import argparse

import dspy

from ace import Policy, ReActGenerator
from ace.testing import ScriptedLM, decision
from ace.tools import calculator


def main() -> None:
    """Ask and print the trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", default="What is 17% of 240?")
    parser.add_argument("--lm")
    parser.add_argument("--api-base")
    given = parser.parse_args()
    script = [decision("calculator", expression="17 / 100 * 240"), decision("submit", answer="40.8")]
    lm = dspy.LM(given.lm, api_base=given.api_base, api_key="none") if given.lm else ScriptedLM(script)
    agent = ReActGenerator(tools=[calculator], lm=lm, policy=Policy.forgiving(), output_mode="simple")
    out = agent.forward(given.question)
    print(out.reasoning_trace)
    print("answer:", out)


if __name__ == "__main__":
    main()
