"""What a call returns: the fields, the run behind them, and its formatted form."""

from ace import ReActGenerator
from ace.learner import Learner
from ace.playbook import CallableEmbedder, Playbook
from ace.tasks import TaskOutput, run_of
from ace.testing import ScriptedLM, decision
from ace.tools import calculator

END = decision("finish", answer="42")


def agent(*replies, **options):
    return ReActGenerator(tools=[calculator], lm=ScriptedLM(replies), **options)


def test_simple_mode_prints_the_bare_answer_and_drops_nothing():
    out = agent(END, output_mode="simple").forward("x")
    assert (str(out), out.usage.lm_calls) == ("42", 1)
    assert "answer='42'" in str(agent(END).forward("x"))
    assert str(out.copy()) == "42"


def test_every_prediction_is_formatted_by_the_agents_own_hook():
    class Loud(ReActGenerator):
        def format_result(self, output, mode):
            return f"{output.answer}!" if mode == "simple" else output

    class Broken(ReActGenerator):
        def format_result(self, output, mode):
            asked.append(output.answer)
            raise ValueError("a bug in the hook")

    asked = []
    broken = Broken(tools=[], lm=ScriptedLM([END] * 4), output_mode="simple")
    assert str(broken.forward("x")) == broken.run("x").answer == "42"
    with broken.stream("x") as stream:
        assert list(stream)
    assert asked == ["42"] * 3
    shown = Loud(tools=[], lm=ScriptedLM([END]), output_mode="simple").forward("x")
    assert (str(shown), shown.formatted) == ("42!", "42!")
    assert isinstance(Loud(tools=[], lm=ScriptedLM([END])).forward("x").formatted, TaskOutput)


def test_an_output_that_is_called_output_hides_no_run():
    agent = ReActGenerator("task -> output", tools=[], lm=ScriptedLM([decision("submit", output="42")] * 2))
    chat = agent.chat()
    assert (chat.send("x").output, chat.waiting, agent.run("x").outputs) == ("42", None, {"output": "42"})


def test_a_run_whose_output_is_called_output_is_learned_from_and_taken_back():
    embedder = CallableEmbedder("toy", lambda texts: [[len(text), 1.0] for text in texts])
    with Playbook(embedder=embedder) as book, Learner(book) as learner:
        agent = ReActGenerator(
            "task -> output", tools=[], playbook=book, lm=ScriptedLM([decision("submit", output="42")] * 3)
        )
        first, second = agent.forward("x"), agent.forward("y")
        learner.observe(first, True)
        assert learner.flush()
        learner.learn_from_traces([second], [True])
        assert set(book.history.heard()) == {run_of(first).run_id, run_of(second).run_id}
        learner.retract(first)
        assert book.history.heard()[run_of(first).run_id].success is None


def test_each_object_shows_itself_in_one_line():
    book = Playbook(embedder=CallableEmbedder("x", lambda texts: [[1.0]] * len(texts)))
    book.add(section="Strategies", trigger="Refund an order", content="Look it up first | then refund.")
    it = agent(decision("calculator", expression="6 * 7"), END, playbook=book)
    out = it.forward("x")
    shown = [repr(it), repr(book), repr(book["b-1"]), repr(out), repr(out.output), repr(out.trace)]
    assert all("\n" not in line and " at 0x" not in line and len(line) < 200 for line in shown), shown
    assert "task -> answer: 1 tool" in shown[0]
    assert "in memory: 1 lesson, revision 1" in shown[1]
    assert "Refund an order: Look it up first" in shown[2]
    assert "answer='42'; completed after 1 call" in shown[3]
    assert [lesson.text for lesson in book] == ["Refund an order: Look it up first | then refund."]
    assert "calculator({" in str(out.trace)
    assert "success: 42" in str(out.trace)
    assert [str(one) for one in (book["b-1"], out.output)] == [shown[2], shown[4]]
    assert ("b-1" in book, "b-9" in book, 3 in book) == (True, False, False)
    for one in (it, out, out.output, out.trace, book, book["b-1"]):
        assert one._repr_markdown_()
    for one in (it.registry, book.history):
        assert " at 0x" not in repr(one)
    assert book._repr_markdown_().splitlines()[-1].count("|") == 5, "a bar in a lesson makes no column"
