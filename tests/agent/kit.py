"""What tests of the machine share: a spec, a scripted model, replies."""

from ace.agent import AgentRun, ModelReply, RunSpec, drive
from ace.agent.history import as_text
from ace.core import RunUsage, ToolError
from ace.tasks import TaskInput
from ace.tools import Tool, ToolRegistry, calculator, tool


def finish(answer: str, cited_bullets: list[str] = []) -> None:  # noqa: B006
    """End."""


FINISH_TOOL = Tool.from_function(finish)


def spec(tools=(calculator,), **options):
    options = {"max_iters": 5, "task": TaskInput(task_id="t1", inputs={"task": "x"}), **options}
    return RunSpec(registry=ToolRegistry(tools), finish=FINISH_TOOL, **options)


class Script:
    """A model that plays replies; an exception among them is raised."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    def ask(self, request):
        self.asked.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def aask(self, request):
        return self.ask(request)


def call(name, **args):
    return ModelReply(thought="t", tool_name=name, tool_args=args, usage=RunUsage(lm_calls=1))


def extract(answer):
    """A reply to the request for the answer alone."""
    return ModelReply(tool_name="submit", tool_args={"answer": answer}, usage=RunUsage(lm_calls=1))


def shown(request):
    """What a request shows the model, as text: the turns so far, and what it adds to them."""
    return as_text([*request.turns, request.said])


def play(*replies, **options):
    run = AgentRun(spec(**options))
    model = Script(*replies)
    return drive(run, model), model


@tool(read_only=True)
def peek(key: str) -> str:
    """Look at a key."""
    return f"value of {key}"


@tool
def send(text: str) -> str:
    """Send a text."""
    return "sent"


@tool(read_only=True)
def peek_or_refuse(key: str) -> str:
    """Look up a key."""
    if key == "bad":
        raise ToolError("refused", "no such key")
    return f"value of {key}"


def payments():
    """A tool that needs approval, and what it paid."""
    paid = []

    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return pay, paid
