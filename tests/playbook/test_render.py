"""How bullets look in a prompt, and how they are counted."""

import pytest

from ace.playbook import PlaybookBullet, render
from ace.playbook.render import count_tokens, pack, render_bullet, render_bullets


def lesson(section="Strategies", content="Find the order first.", **fields):
    return PlaybookBullet(id="b-7", section=section, content=content, **fields)


def test_a_strategy_names_its_tools_and_nothing_else_does():
    tools = {"tool_sequence": ("find", "refund")}
    assert render_bullet(lesson(**tools)) == "[b-7] (Strategies) Find the order first. Tools: find -> refund"
    assert render_bullet(lesson()) == "[b-7] (Strategies) Find the order first."
    assert render_bullet(lesson("Pitfalls", **tools)) == "[b-7] (Pitfalls) Find the order first."
    assert render_bullet(lesson(trigger="Refund an\norder")).startswith(
        "[b-7] (Strategies) For a task like <Refund an order>:"
    )


@pytest.fixture
def again():
    render._encoder.cache_clear()
    yield
    render._encoder.cache_clear()


def test_tokens_are_those_of_tiktoken_from_the_file_that_litellm_ships(again):
    import tiktoken

    text = "Refund the order of Ann, <|endoftext|> and say so."
    assert render._encoder() is not None
    assert count_tokens(text) == len(render._encoder()(text))
    assert count_tokens(text) < len(text) / 2
    assert tiktoken.get_encoding(render.ENCODING).name == render.ENCODING


def test_without_that_file_three_bytes_are_a_token(again, tmp_path, monkeypatch):
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(render.importlib.util, "find_spec", lambda name: Spec())
    assert render._encoder() is None
    assert count_tokens("seven b") == 3
    assert count_tokens("sixsix") == 2
    render._encoder.cache_clear()
    monkeypatch.setattr(render.importlib.util, "find_spec", lambda name: None)
    assert render._encoder() is None


def test_one_that_is_too_long_is_passed_over_and_never_cut():
    short, long = lesson(), lesson(content="word " * 100)
    assert pack([long, short], 20, 3) == [short]
    assert pack([short, short], 1_000, 1) == [short]
    assert pack([short, long], count_tokens(render_bullets([short, long])), 3) == [short, long]
    assert pack([short, long], count_tokens(render_bullets([short, long])) - 1, 3) == [short]
    assert pack([short], 5, 3, count=lambda text: 5) == [short]
    assert pack([short], 5, 3, count=lambda text: 6) == []
