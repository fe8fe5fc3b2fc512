"""Playbooks in schemas of one server."""

import pytest
from databases import fresh_database

from ace.core import PlaybookError
from ace.evaluation.schemas import schema_url
from ace.playbook import Playbook


def test_a_store_must_be_a_server(postgres, tmp_path):
    for wrong in (str(tmp_path / "book.db"), "mysql://host/db", "postgresql:/"):
        with pytest.raises(PlaybookError, match="postgresql://USER@HOST/DB; got"):
            schema_url(wrong, "one")
    assert "one" in schema_url(postgres, "one")


def test_a_server_that_does_not_answer_is_named_without_its_password():
    with pytest.raises(PlaybookError, match="cannot reach the schema 'one'") as caught:
        schema_url("postgresql://ana:secret@127.0.0.1:1/db", "one")
    assert "secret" not in str(caught.value)


def test_a_fresh_schema_on_a_server_is_empty(postgres, embedder):
    server = fresh_database(postgres)
    with Playbook(schema_url(server, "one"), embedder=embedder) as book:
        book.add(section="Strategies", content="a")
    with Playbook(schema_url(server, "one"), embedder=embedder) as book:
        assert len(book) == 1
    with Playbook(schema_url(server, "one", fresh=True), embedder=embedder) as book:
        assert len(book) == 0
