"""`ace serve`: what it refuses, and how it ends. What it serves is tested with the official client in tests/serve."""

import json

from command import ace


def test_it_ends_with_its_client_and_says_what_there_is(tmp_path):
    ace("serve", tmp_path / "team.db", "--mcp", "--json", tmp_path / "out.json", typed="")
    assert json.loads((tmp_path / "out.json").read_text()) == {"lessons": 0, "revision": 0}
    assert (tmp_path / "team.db").exists()


def test_it_says_how_it_may_be_called(tmp_path):
    assert "--mcp" in ace("serve", tmp_path / "team.db", code=2)
    assert "there is no playbook" in ace("serve", tmp_path / "none.db", "--mcp", "--read-only", code=2)
    assert not list(tmp_path.iterdir())
