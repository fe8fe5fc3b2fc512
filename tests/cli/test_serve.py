"""`ace serve`: what it refuses, and how it ends. What it serves is tested with the official client in tests/serve."""

import json
import socket

from command import ace


def test_it_ends_with_its_client_and_says_what_there_is(tmp_path):
    ace("serve", tmp_path / "team.db", "--mcp", "--json", tmp_path / "out.json", typed="")
    assert json.loads((tmp_path / "out.json").read_text()) == {"lessons": 0, "revision": 0}
    assert (tmp_path / "team.db").exists()


def test_it_says_what_is_missing_before_it_listens(tmp_path):
    book, tokens = tmp_path / "team.db", tmp_path / "tokens"
    assert "there is no playbook" in ace("serve", book, "--mcp", "--read-only", code=1)
    assert "can be reached by others: name a --token-file" in ace("serve", book, "--host", "0.0.0.0", code=1)
    (tmp_path / "t").write_text("token-of-ana-0123456789")
    text = ace("serve", book, "--host", "0.0.0.0", "--token-file", tmp_path / "t", "--no-browser", code=1)
    assert "0.0.0.0 is no name: say with --name" in text
    (tmp_path / "t").unlink()
    assert "cannot read the token file" in ace("serve", book, "--token-file", tokens, code=1)
    assert "there is no folder" in ace("serve", book, "--runs", tmp_path / "runs", code=1)
    assert not list(tmp_path.iterdir())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen at 127.0.0.1:{port}" in ace("serve", book, "--port", port, "--no-browser", code=1)
