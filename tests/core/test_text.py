import json
import os
import traceback

import pytest
from hypothesis import given, strategies as st

from ace.core import clean_text, describe_error, json_value, truncate, value_to_text


class Hostile:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__

    def __iter__(self):
        raise RuntimeError("no")


def test_a_lone_surrogate_becomes_encodable():
    assert clean_text("a\ud800").encode("utf-8") == b"a?"


def test_any_object_becomes_text():
    cyclic = []
    cyclic.append(cyclic)
    for value in (Hostile(), cyclic, {1: {2: object()}}, b"\xff", float("nan"), lambda: 1, {Hostile(): 1}, "\udfff"):
        value_to_text(value).encode("utf-8")


def test_no_memory_address_reaches_a_prompt():
    assert "0x" not in value_to_text([object()])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
        max_leaves=20,
    )
)
def test_json_values_become_encodable_text(value):
    value_to_text(value).encode("utf-8")


def test_long_text_is_cut_and_says_so():
    assert truncate("x" * 10, 3) == "xxx... [7 more characters]"


def test_an_error_is_described_without_traceback():
    try:
        raise ValueError("bad id")
    except ValueError as error:
        assert describe_error(error) == "ValueError: bad id"
    assert describe_error(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("[Errno 2] No such file: '/home/ana/.secrets/key.pem'", "[Errno 2] No such file: 'key.pem'"),
        (r"cannot read C:\Users\ana\key.txt now", "cannot read key.txt now"),
        ("see https://example.com/docs/refunds or /orders", "see https://example.com/docs/refunds or /orders"),
        ("1/2 of a/b/c", "1/2 of a/b/c"),
        ("in /var/lib/app/", "in a folder"),
        ("open file:///home/ana/shop.db", "open shop.db"),
        (r"No such file: 'C:\\Users\\ana\\key.txt'", "No such file: 'key.txt'"),
        (r"cannot read \\server\share\key.txt", "cannot read key.txt"),
        ("/srv/tool/main.py and ~/notes/a.md and /app/of/theirs/main.py", "main.py and a.md and main.py"),
    ],
)
def test_folders_of_this_machine_do_not_reach_a_prompt(message, shown):
    assert describe_error(OSError(message)) == f"OSError: {shown}"


@pytest.mark.parametrize(
    "text",
    [
        "404 for /api/v1/orders",
        "POST /v2/users/42/orders?limit=5 was refused",
        "'/orders/o-17/items' is gone",
        "/graphql/v1/ is closed",
    ],
)
def test_a_route_of_a_web_service_is_no_path(text):
    assert describe_error(OSError(text)) == f"OSError: {text}"


def test_a_folder_of_this_machine_is_one_whatever_its_name(tmp_path):
    assert describe_error(OSError(f"no {tmp_path}/key")) == "OSError: no key"
    own = next(name for name in os.listdir("/") if os.path.isdir(f"/{name}"))
    assert describe_error(OSError(f"no /{own}/deep/key")) == "OSError: no key"


def test_the_frames_of_a_traceback_in_a_message_are_left_out():
    def fail():
        raise ExceptionGroup("two", [ValueError("bad id"), KeyError("k")])

    try:
        fail()
    except ExceptionGroup:
        text = traceback.format_exc()
    shown = describe_error(RuntimeError(f"the worker failed:\n{text}")) + describe_error(RuntimeError(GROUPLESS))
    assert "ValueError: bad id" in shown
    assert "ConnectionError: gone" in shown
    assert "Traceback" not in shown
    assert "line " not in shown


GROUPLESS = """the worker failed:
Traceback (most recent call last):
  File "/srv/app/main.py", line 5, in run
    connect()
    ~~~~~~~^^
ConnectionError: gone"""


def test_of_a_group_its_leaves_are_told():
    inner = ExceptionGroup("inner", [ValueError("no such item"), ValueError("no such item")])
    assert describe_error(ExceptionGroup("outer", [inner, KeyError("a")])) == "ValueError: no such item; KeyError: 'a'"
    many = describe_error(ExceptionGroup("many", [ValueError(str(n)) for n in range(9)]))
    assert many.endswith("ValueError: 4; and 4 more")


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_what_json_has_no_word_for_becomes_text(value):
    stored = json_value({"n": [value, {"m": value}]})
    assert json.loads(json.dumps(stored, allow_nan=False)) == stored


def test_any_value_becomes_plain_json():
    class Hostile:
        def __str__(self):
            raise ValueError

    assert json_value((1, {"a"}, {2: Hostile()}))[:2] == [1, ["a"]]
    assert isinstance(json_value(Hostile()), str)
    assert json_value({2: (1.5, None, True)}) == {"2": [1.5, None, True]}
    assert isinstance(json_value(object()), str)
