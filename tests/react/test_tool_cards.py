"""Tool descriptions as components of an optimizer, and programs whose tools have changed."""

import dspy

from ace import ReActGenerator
from ace.testing import FunctionLM, ScriptedLM, decision


def lookup(key: str) -> str:
    """Look a key up."""
    return {"KEY-a": "1"}.get(key, "no such key; keys start with KEY-")


def ping() -> str:
    """Say pong."""
    return "pong"


def agent(*tools, **options):
    return ReActGenerator("question -> answer", tools=tools or (lookup, ping), **options)


def described(card, text):
    card.signature = card.signature.with_instructions(text)


def prompts_of(program):
    seen = []

    def answer(prompt):
        seen.append(prompt)
        return decision("submit", "done", answer="1")

    program(question="a", lm=FunctionLM("test/seen", answer))
    return seen


def test_a_card_is_what_the_catalog_says_and_nothing_else_changes():
    plain, carded = agent(), agent().with_tool_cards()
    before = prompts_of(carded)[0]
    assert before.whole == prompts_of(plain)[0].whole, "until a card is rewritten"
    described(carded.cards["lookup"], "Look a key up; it starts with KEY-.")
    after = prompts_of(carded)[0]
    assert after.tools["lookup"]["description"] == "Look a key up; it starts with KEY-."
    assert after.tools["lookup"]["args"] == before.tools["lookup"]["args"]
    assert after.tools["ping"] == before.tools["ping"]
    assert set(after.tools) == {"lookup", "ping", "submit"}


def test_no_instruction_loses_the_catalog():
    program = agent().with_tool_cards()
    for _, predictor in program.named_predictors():
        described(predictor, "x")
    prompt = prompts_of(program)[0]
    assert set(prompt.tools) == {"lookup", "ping", "submit"}
    assert prompt.tools["lookup"]["args"]["required"] == ["key"]


def test_native_calling_shows_the_cards_too():
    program = agent(tool_calling="native").with_tool_cards()
    described(program.cards["lookup"], "Better words.")
    from ace.react.tool_cards import descriptions

    specs = program._shared.catalog.described(descriptions(program.cards)).declared()
    assert specs[0].format_as_litellm_function_call()["function"]["description"] == "Better words."


def test_every_call_of_a_tool_is_an_example_for_its_card():
    program = agent(lm=ScriptedLM([decision("lookup", key="a"), decision("finish", answer="?")])).with_tool_cards()
    with dspy.context(trace=[]):
        program(question="a")
        steps = [step for step in dspy.settings.trace if step[0] is program.cards["lookup"]]
    assert [(step[1], step[2].observation) for step in steps] == [
        ({"lookup_arguments": {"key": "a"}}, "no such key; keys start with KEY-")
    ]


def test_gepa_rewrites_only_a_description_and_the_agent_gets_better():
    def answer(prompt):
        if "new_instruction" in prompt.system:
            return '{"new_instruction": "Look a key up; it starts with KEY-."}'
        if not prompt.steps:
            prefix = "KEY-" if "starts with KEY-" in prompt.tools["lookup"]["description"] else ""
            return decision("lookup", key=f"{prefix}a")
        return decision("submit", answer=prompt.steps[-1]["observation"])

    def metric(gold, pred, trace=None, pred_name=None, pred_trace=None):
        return dspy.Prediction(score=float(pred.answer == "1"), feedback="")

    lm = FunctionLM("test/rules", answer)
    data = [dspy.Example(question="a", answer="1").with_inputs("question")] * 3
    student = agent(lookup).with_tool_cards()
    with dspy.context(lm=lm):
        best = dspy.GEPA(
            metric=metric,
            max_metric_calls=40,
            reflection_lm=lm,
            num_threads=1,
            component_selector=lambda *_: ["cards['lookup']"],
        ).compile(student, trainset=data, valset=data)
        assert (student(question="a").answer, best(question="a").answer) != ("1", "1")
        assert best(question="a").answer == "1"
    assert best.agent.react.signature.instructions == student.agent.react.signature.instructions


def test_cards_are_saved_and_a_plain_agent_loads_them(tmp_path):
    program = agent().with_tool_cards()
    described(program.cards["ping"], "Better words.")
    program.save(tmp_path / "p.json")
    again = agent()
    again.load(tmp_path / "p.json")
    assert again.tool_changes == []
    assert prompts_of(again)[0].tools["ping"]["description"] == "Better words."


def test_a_program_whose_tools_changed_says_exactly_how(tmp_path, caplog):
    program = agent().with_tool_cards()
    described(program.cards["lookup"], "Old wisdom about lookup.")
    described(program.cards["ping"], "Better words.")
    demo = {"question": "a", "next_thought": ""}
    program.agent.react.demos = [
        demo | {"tool_calls": {"tool_calls": [{"name": name, "args": {}}]}} for name in ("lookup", "ping")
    ]
    program.save(tmp_path / "p.json")

    def look(key: str, limit: int = 3) -> str:
        """Look a key up."""
        return key

    look.__name__ = "lookup"

    def news() -> str:
        """What is new."""
        return ""

    def ping() -> str:
        """Say pong, twice."""
        return "pong"

    again = agent(look, ping, news)
    again.load(tmp_path / "p.json")
    assert again.tool_changes == [
        "tool 'lookup' argument 'limit' is new",
        "tool 'news' is new",
        "tool 'ping' has another description",
        "1 demos of 'agent.react' call such a tool and are left out",
    ]
    assert all(words in caplog.text for words in again.tool_changes)
    shown = prompts_of(again)[0].tools
    assert [shown[name]["description"] for name in ("lookup", "ping", "news")] == [
        "Look a key up.",
        "Better words.",
        "What is new.",
    ]
    gone = agent(ping)
    gone.load(tmp_path / "p.json")
    assert gone.tool_changes[0] == "tool 'lookup' is gone"
