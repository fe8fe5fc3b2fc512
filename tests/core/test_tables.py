"""Tables and arrays as a model reads them, of the real libraries."""

import json

import numpy as np
import pandas as pd
import pytest

from ace.core import value_to_text
from ace.core.tables import MAX_COLUMNS, MAX_ITEMS, MAX_ROWS
from ace.core.text import MAX_OBSERVATION_CHARS


def test_a_small_table_is_shown_as_it_is():
    frame = pd.DataFrame({"order": ["o-1", "o, 2"], "total": [1, 2.5]})
    assert value_to_text(frame) == 'order,total\no-1,1.0\n"o, 2",2.5'


def test_a_table_of_some_hundred_rows_is_shown_whole():
    text = value_to_text(pd.DataFrame({"order": [f"o-{i}" for i in range(800)], "total": range(800)}))
    assert text.splitlines() == ["order,total", *(f"o-{i},{i}" for i in range(800))]


@pytest.mark.parametrize("rows", [1_001, 5_000])
def test_a_long_table_says_how_many_rows_are_left_out(rows):
    lines = value_to_text(pd.DataFrame({"n": range(rows)})).splitlines()
    assert lines[-1] == f"... [{rows - MAX_ROWS} more rows]"
    assert len(lines) == MAX_ROWS + 2


def test_rows_are_cut_where_the_text_is_full():
    frame = pd.DataFrame({"text": ["x" * 100] * 500})
    text = value_to_text(frame)
    *shown, note = text.splitlines()
    assert len(text) <= MAX_OBSERVATION_CHARS
    assert note == f"... [{500 - len(shown) + 1} more rows]"
    assert value_to_text(frame, 50) == "text\n... [500 more rows]"


def test_a_wide_table_keeps_its_columns_and_says_which_are_left_out():
    assert "column29" in value_to_text(pd.DataFrame({f"column{i}": [i] for i in range(30)}))
    header, row = value_to_text(pd.DataFrame({f"c{i}": [i] for i in range(500)})).splitlines()
    assert header.endswith(f",... [{500 - MAX_COLUMNS} more columns]")
    assert row.split(",")[-1] == str(MAX_COLUMNS - 1)


def test_an_index_that_says_something_is_a_column():
    grouped = pd.DataFrame({"shop": ["a", "b", "a"], "day": [1, 1, 2], "n": [1, 2, 3]}).groupby(["shop", "day"]).sum()
    assert value_to_text(grouped) == "shop,day,n\na,1,1\na,2,3\nb,1,2"
    assert value_to_text(pd.Series([3, 4], index=["ana", "bob"], name="sales")) == "index,sales\nana,3\nbob,4"


def test_an_empty_table_is_its_header():
    assert value_to_text(pd.DataFrame({"a": [], "b": []})) == "a,b"


def test_an_array_is_a_list():
    assert value_to_text(np.array([[1, 2], [3, 4]])) == "[[1, 2], [3, 4]]"
    assert value_to_text(np.int64(7)) == "7"
    assert json.loads(value_to_text(np.arange(1_500)))[777] == 777


def test_a_large_array_says_how_much_is_left_out():
    long = json.loads(value_to_text(np.zeros(MAX_ITEMS + 5, dtype=int), 10**6))
    assert (len(long), long[-1]) == (MAX_ITEMS + 1, "... [5 more]")
    deep = json.loads(value_to_text(np.zeros((7, 3, MAX_ITEMS), dtype=int), 10**6))
    assert deep[-1] == "... [6 more]"
    assert [len(deep[0][0]), deep[0][1]] == [MAX_ITEMS, "... [2 more]"]


def test_a_table_inside_something_else_is_rows_too():
    frame = pd.DataFrame({"a": range(2), "b": ["x", "y"]})
    shown = json.loads(value_to_text({"found": frame, "mean": np.float64(0.5), "ids": [np.arange(2)]}))
    assert shown == {"found": [["a", "b"], [0, "x"], [1, "y"]], "mean": 0.5, "ids": [[0, 1]]}
    assert json.loads(value_to_text([pd.DataFrame({"n": range(1_200)})]))[0][-1] == "... [200 more rows]"


def test_an_object_that_answers_to_every_name_is_no_table():
    class Anything:
        def __getattr__(self, name):
            return lambda *args, **kwargs: self

        def __str__(self):
            return "anything"

    assert value_to_text(Anything()) == "anything"
