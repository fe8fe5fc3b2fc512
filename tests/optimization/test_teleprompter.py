import dspy
import pytest

from ace import ReActGenerator
from ace.core import SignatureError
from ace.optimization import ACE, as_generator
from ace.react.program import OLD_REACT, REACT
from ace.testing import FunctionLM, decision

EITHER = [REACT, *filter(None, [OLD_REACT])]
PRICES = {"tea": 3, "milk": 2, "bread": 5}


def price(item: str) -> int:
    """The price of an item."""
    return PRICES[item]


def clerk(prompt):
    """A model that looks the price up when a note tells it to, and guesses otherwise."""
    item = prompt.fields["question"].split()[-1].rstrip("?")
    seen = prompt.steps
    informed = "price(item from the task)" in prompt.fields.get("playbook", "") or item == "tea"
    if informed and not seen:
        return decision("price", "I look.", item=item)
    return decision("submit", "Done.", answer=seen[-1]["observation"] if seen else "7")


def right(example, prediction, trace=None):
    return prediction.answer == str(example.answer)


def example(item, **more):
    return dspy.Example(question=f"What is the price of {item}?", answer=PRICES[item], **more).with_inputs("question")


@pytest.fixture
def lm():
    return FunctionLM("clerk", clerk)


@pytest.mark.parametrize("react", EITHER)
def test_a_plain_react_learns(lm, book, react):
    student = react("question -> answer", tools=[price], max_iters=7)
    with dspy.context(lm=lm):
        if react is REACT:  # the model of this test does not speak to the old one
            assert not right(example("milk"), student(question="What is the price of milk?"))
        optimizer = ACE(right, playbook=book, progress=False)
        agent = optimizer.compile(student, trainset=[example("tea", domain="shop", group="prices")])
        assert right(example("milk"), agent(question="What is the price of milk?", domain="shop"))
    assert optimizer.report.successes == 1
    assert agent.max_iters == 7
    assert (book.bullets[0].domain, book.bullets[0].provenance.groups) == ("shop", ("prices",))
    assert not hasattr(student, "playbook"), "the student stays as it is"


@pytest.mark.parametrize("react", EITHER)
def test_it_composes_with_optimizers_of_instructions(lm, book, react):
    student = react(dspy.Signature("question -> answer", "Answer in one word."), tools=[price])
    student.react.signature = student.react.signature.with_instructions(
        "Be brief. " + student.react.signature.instructions
    )
    student.react.demos = [dspy.Example(question="q", next_thought="t")]
    agent = as_generator(student)
    assert agent.agent.react.signature.instructions.startswith("Be brief.")
    # demonstrations of the old loop hold its trajectory as text, which no prompt of ours has a place for
    assert len(agent.agent.react.demos) == (react is REACT)
    with dspy.context(lm=lm):
        learned = ACE(right, playbook=book, progress=False).compile(agent, trainset=[example("tea")])
        demos = dspy.BootstrapFewShot(metric=right, max_labeled_demos=0, max_bootstrapped_demos=1)
        again = demos.compile(learned, trainset=[example("milk")])
        assert again.playbook is book
        assert right(example("bread"), again(question="What is the price of bread?"))


def test_a_generator_keeps_its_own_book(lm, book):
    agent = ReActGenerator("question -> answer", tools=[price], playbook=book, lm=lm)
    learned = ACE(right, progress=False).compile(agent, trainset=[example("tea")])
    assert learned is not agent
    assert learned.playbook is book
    assert len(book) == 1


def test_a_metric_with_feedback_teaches_what_was_wrong(lm, book):
    def metric(gold, prediction, trace=None):
        return dspy.Prediction(score=0.4, feedback="the price was guessed")

    ACE(metric, playbook=book, progress=False).compile(
        ReActGenerator("question -> answer", tools=[price], lm=lm), trainset=[example("milk")]
    )
    assert "the price was guessed" in book.bullets[0].content
    ACE(metric, playbook=book, threshold=0.3, progress=False).compile(
        ReActGenerator("question -> answer", tools=[price], lm=lm), trainset=[example("bread")]
    )
    assert {b.section for b in book.bullets} == {"Pitfalls", "Strategies"}


def test_a_validation_set_guards_the_book(lm, book):
    agent = ReActGenerator("question -> answer", tools=[price], lm=lm)
    optimizer = ACE(right, playbook=book, progress=False)
    optimizer.compile(agent, trainset=[example("milk")], valset=[example("bread")])
    assert (len(book), optimizer.report.refused) == (0, 1), "a note on what did not work helped no task"
    optimizer.compile(agent, trainset=[example("tea"), example("milk")], valset=[example("bread")])
    assert [b.section for b in book.bullets if b.section == "Strategies"] == ["Strategies"]


def test_a_compiled_agent_is_saved_and_loaded(lm, book, tmp_path):
    agent = ReActGenerator("question -> answer", tools=[price], lm=lm)
    learned = ACE(right, playbook=book, progress=False).compile(agent, trainset=[example("tea")])
    learned.save(str(tmp_path / "agent.json"))
    again = ReActGenerator("question -> answer", tools=[price], lm=lm, playbook=book)
    again.load(str(tmp_path / "agent.json"))
    assert right(example("milk"), again(question="What is the price of milk?"))


def test_an_interrupted_compile_goes_on(lm, book, tmp_path):
    agent = ReActGenerator("question -> answer", tools=[price], lm=lm)
    trainset = [example(item) for item in PRICES]

    def stopping(gold, prediction, trace=None):
        if gold.answer == 5:
            raise KeyboardInterrupt
        return right(gold, prediction)

    with pytest.raises(KeyboardInterrupt):
        ACE(stopping, playbook=book, state=tmp_path / "s", progress=False).compile(agent, trainset=trainset)
    optimizer = ACE(right, playbook=book, state=tmp_path / "s", progress=False)
    optimizer.compile(agent, trainset=trainset)
    assert (optimizer.report.skipped, optimizer.report.runs) == (2, 1)


def test_what_cannot_be_compiled_is_refused_with_a_reason(lm):
    agent = ReActGenerator("question -> answer", tools=[price], lm=lm)
    with pytest.raises(ValueError, match="trainset is empty"):
        ACE(right).compile(agent, trainset=[])
    with pytest.raises(ValueError, match="example 0 lacks 'question'"):
        ACE(right, progress=False).compile(agent, trainset=[dspy.Example(task="x").with_inputs("task")])
    with pytest.raises(SignatureError, match="got Predict"):
        ACE(right).compile(dspy.Predict("question -> answer"), trainset=[example("tea")])
    with pytest.raises(ValueError, match="expected a function"):
        ACE("exact match")
    with pytest.raises(ValueError, match="epochs"):
        ACE(right, epochs=0)
