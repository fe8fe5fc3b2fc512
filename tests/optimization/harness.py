"""A loopback server with the stand-ins behind it, and jobs that run against it in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

from ace.suites.registry import load_suite
from ace.testing import SimulatedLM, SimulatedProposer
from ace.testing.engine import Prompt
from ace.testing.proposer import ADVICE
from ace.testing.rates import load_rates
from benchmarks.model_server import serve

SMALL = ["--train", "8", "--val", "4", "--test", "4", "--budget", "80"]


class AdvisedLM(SimulatedLM):
    """Errs as real models do, until some instruction or tool description gives the proposer's advice: then it does not."""

    def __init__(self):
        suite = load_suite("office")
        super().__init__(suite, rates=load_rates(0.6))
        self.advised = SimulatedLM(suite, "oracle")

    def _answer(self, prompt):
        texts = [prompt.system, *(entry.get("description", "") for entry in prompt.tools.values())]
        return (self.advised if any(ADVICE in text for text in texts) else super())._answer(prompt)


class Server:
    """What was asked, and a process that is killed in the middle of a certain request."""

    def __init__(self):
        self.agent = AdvisedLM()
        self.proposer = SimulatedProposer()
        self.asked = []
        self.victim = None
        self.kill_at = self.interrupt_at = None
        self.latency = 0.0
        self.url = ""
        self.bodies = []

    def answer(self, prompt: Prompt, native: bool) -> str:
        if self.kill_at is not None and len(self.asked) == self.kill_at:
            self.kill_at = None
            self.victim.send_signal(signal.SIGKILL)
            self.victim.wait()
            return ""  # the reply is not read, and was not counted
        self.asked.append(prompt.messages)
        if len(self.asked) == self.interrupt_at:
            self.victim.send_signal(signal.SIGINT)
        time.sleep(self.latency)
        mine = "task" in prompt.fields and {"tool_calls", "answer"} & set(prompt.wants)
        return (self.agent if mine else self.proposer).engine.answer(prompt)

    def job(self, out, *options):
        """Start `ace optimize`."""
        command = [sys.executable, "-m", "ace", "optimize", "office", "--lm", "openai/test", "--api-base", self.url]
        # a cache of its own for each process: what is kept is kept in the job's folder
        environment = {**os.environ, "DSPY_CACHEDIR": f"{out}-cache-{len(self.asked)}", "COLUMNS": "200"}
        self.victim = subprocess.Popen(
            [*command, "--out", str(out), *SMALL, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        return self.victim

    def finish(self, out, *options):
        """Run a job to its end; what it printed."""
        process = self.job(out, *options)
        text, _ = process.communicate()
        assert process.returncode == 0, text
        return text

    def take(self):
        """What was asked since the last time."""
        asked, self.asked = Counter(self.asked), []
        return asked


@contextmanager
def loopback():
    """A server; requests to it are counted."""
    server = Server()
    with serve(server.answer) as (server.url, server.bodies):
        yield server
