"""STATE-Bench's learning track with a playbook: learn from its recorded conversations, then run its test tasks.

    cd STATE-Bench
    uv run --with ACE --with ACE/benchmarks/suites python ACE/examples/state_bench_agent.py . --domain travel --model gpt-5.1

STATE-Bench is a checkout of github.com/microsoft/STATE-Bench with its ``.env`` (its simulator and its judge are hosted
models), ACE one of this project. The command learns a playbook from ``datasets/train_task_trajectories/DOMAIN``, puts this
file under ``agents/``, where the benchmark looks for `AcePlaybookAgent`, and starts the benchmark's own ``run_batch``.
``--learn-only`` stops before that and needs no key. What comes out there is a STATE-Bench score; none of this project's own
figures is one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from ace.playbook import Playbook
from ace.playbook.render import render_bullet

PLAYBOOK = "ACE_STATE_BENCH_PLAYBOOK"
"""The variable that tells the agent where its playbook is."""

try:
    from state_bench.agents.state_bench import StateBenchAgent
except ImportError:  # outside of the benchmark this file only learns
    StateBenchAgent = object


class AcePlaybookAgent(StateBenchAgent):
    """The benchmark's own agent, which may look lessons up; the benchmark adds the tool for it."""

    def retrieve_learnings(self, query: str, top_k: int = 3) -> list[str]:
        """Return the lessons that fit, best first, as a prompt shows them."""
        return [render_bullet(bullet) for bullet in opened().retrieve(query, k=top_k)]


@cache
def opened() -> Playbook:
    """Open the playbook that `PLAYBOOK` names."""
    return Playbook.open(os.environ[PLAYBOOK])


def learn(conversations: Path, target: Path) -> int:
    """Learn a new playbook from recorded conversations; gives the number of lessons."""
    from ace_suites.state_bench import learn as learn_from, read_conversations, runs_of

    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with Playbook.open(target) as book:
        learn_from(book, *runs_of(read_conversations(conversations).values()))
        return len(book)


def main(arguments: list[str] | None = None) -> int:
    """Learn, and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--domain", required=True, help="travel, customer_support or shopping_assistant")
    parser.add_argument("--model", default="gpt-5.1", help="the agent's model, as the benchmark reports it")
    parser.add_argument("--runs", type=int, default=5, help="of each task; 5 for a submission")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--learn-only", action="store_true", help="learn the playbook and stop")
    given = parser.parse_args(arguments)
    conversations = given.checkout / "datasets" / "train_task_trajectories" / given.domain
    if not conversations.is_dir():
        parser.error(f"there is no folder {conversations}; name a checkout of STATE-Bench and one of its domains")
    book = (given.checkout / "outputs" / f"ace-{given.domain}.db").absolute()
    print(f"{learn(conversations, book)} lessons in {book}; look at them: ace playbook list {book}", flush=True)
    if given.learn_only:
        return 0
    agents = given.checkout / "agents"
    agents.mkdir(exist_ok=True)
    shutil.copy(__file__, agents / "ace_playbook_agent.py")
    command = [sys.executable, "-m", "state_bench.scripts.run_batch", "--domain", given.domain]
    command += ["--agent-class", "AcePlaybookAgent", "--agent-model-name", given.model, "--num-runs", str(given.runs)]
    command += ["--retrieve-learnings-top-k", "3", "--num-workers", str(given.workers)]
    command += ["--output-dir", f"outputs/{given.domain}/"]
    return subprocess.run(command, cwd=given.checkout, env={**os.environ, PLAYBOOK: str(book)}).returncode


if __name__ == "__main__":
    sys.exit(main())
