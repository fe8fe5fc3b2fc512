import pytest

from ace.core import ToolError
from ace.tools import CorpusSearch, ToolCall, calculator, call_tool, string_helper


def calc(expression):
    return call_tool(calculator, ToolCall(id="c", name="calculator", args={"expression": expression}))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("6 * 7", 42),
        ("-(2 ** 10) // 3", -342),
        ("sqrt(2) ** 2", pytest.approx(2)),
        ("max(1, 2) % 2", 0),
        ("pi", pytest.approx(3.1416, 1e-4)),
        ("2.0 ** -(10 ** 5)", 0.0),
        ("round(2.567, 1)", 2.6),
        ("round(2.5)", 2),
    ],
)
def test_the_calculator_works_out(expression, value):
    assert calc(expression).content == value


@pytest.mark.parametrize(
    "expression",
    ["9 ** 9 ** 9 ** 9", "__import__('os')", "(1).__class__", "'a' * 10", "1 / 0", "x", "", "(-1) ** 0.5", "1e300 * 1e300",
     "exp(1000)", "round(1, -10**8)", "1e999", "1e999 - 1e999", "round(1.5, 0.5)", "[1 for _ in (1,)]", "(" * 400, "True + 1", "10 ** 200"],
)  # fmt: skip
def test_the_calculator_refuses_everything_else(expression):
    result = calc(expression)
    assert (result.outcome, result.error_kind) == ("failed", "refused")


def test_the_string_helper_counts_and_replaces():
    assert string_helper.func("count", "banana", "an") == 2
    assert string_helper.func("replace", "banana", "an", "_") == "b__a"
    assert string_helper.func("words", "a b c") == 3
    with pytest.raises(ToolError, match="target"):
        string_helper.func("count", "banana")


def test_corpus_search_ranks_by_rare_words(tmp_path):
    (tmp_path / "refunds.md").write_text("A refund takes five days.")
    (tmp_path / "hours.md").write_text("We open at nine. A day has hours.")
    search = CorpusSearch.from_folder(tmp_path)
    assert search("how long do refunds take")[0]["title"] == "refunds.md"
    assert search("zebra") == []
    assert search.as_tool().read_only
    with pytest.raises(FileNotFoundError, match="no file"):
        CorpusSearch.from_folder(tmp_path, "*.pdf")


@pytest.mark.parametrize("expression", ["round(1, -10**8)", "1e999", "1e999 - 1e999", "round(1.5, 0.5)"])
def test_the_calculator_neither_freezes_nor_gives_what_is_no_number(expression):
    assert calc(expression).error_kind == "refused"


@pytest.mark.parametrize(
    ("expression", "value"), [("2.0 ** -(10 ** 5)", 0.0), ("round(2.567, 1)", 2.6), ("round(2.6)", 3)]
)
def test_the_calculator_rounds_and_divides_far(expression, value):
    assert calc(expression).content == value


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"operation": "length", "text": "abc"}, "3"),
        ({"operation": "words", "text": "a b"}, "2"),
        ({"operation": "count", "text": "abab", "target": "ab"}, "2"),
        ({"operation": "replace", "text": "abab", "target": "a", "replacement": "c"}, "cbcb"),
        ({"operation": "reverse", "text": "abc"}, "cba"),
        ({"operation": "upper", "text": "abc"}, "ABC"),
        ({"operation": "uppercase", "text": "abc"}, "ABC"),
        ({"operation": "lowercase", "text": "ABC"}, "abc"),
        ({"operation": "trim", "text": " a "}, "a"),
    ],
)
def test_every_operation_on_text(args, expected):
    assert call_tool(string_helper, ToolCall(id="c", name="string_helper", args=args)).text == expected


def test_an_endless_expression_is_refused():
    assert calc("1+" * 2_000 + "1").error_kind == "refused"


def test_a_corpus_may_be_a_list_and_not_be_empty():
    from ace.tools.builtin import builtin_tools

    with pytest.raises(ValueError, match="empty"):
        CorpusSearch([])
    assert "document 1" in CorpusSearch(["the text"]).documents
    assert [tool.name for tool in builtin_tools()] == ["calculator", "string_helper"]
