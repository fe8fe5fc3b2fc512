"""`benchmarks/mutation.py`: which runs count, and which fail."""

import json
import sys

import pytest

from benchmarks import mutation


def run(report, tmp_path, monkeypatch, *words):
    """The exit code of a run that ends with some report, or shows it as kept."""
    report = {"code": mutation.PARTS["memory"].code_digest, "of": 4_568, "counted": 200, "survivors": [], **report}
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.setattr(mutation, "KEPT", kept)
    monkeypatch.setattr(mutation, "report_of", lambda *_: report)
    monkeypatch.setattr(sys, "argv", ["mutation.py", str(tmp_path / "out.json"), "--part", "memory", *words])
    monkeypatch.chdir(tmp_path)
    return mutation.main()


@pytest.mark.parametrize(("mutants", "code"), [(3, 1), (199, 1), (200, 0)])
def test_a_kept_run_of_few_mutants_shows_nothing(mutants, code, tmp_path, monkeypatch, capsys):
    assert run({"mutants": mutants, "killed_percent": 100.0}, tmp_path, monkeypatch, "--kept") == code
    assert (f"holds {mutants} mutants, fewer than 200" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize(("percent", "code"), [(84.9, 1), (85.0, 0)])
def test_a_run_that_notices_too_little_fails(percent, code, tmp_path, monkeypatch, capsys):
    assert run({"mutants": 200, "killed_percent": percent}, tmp_path, monkeypatch) == code
    assert ("fewer than 85 %" in capsys.readouterr().err) == bool(code)
    assert (tmp_path / "out.json").exists()


def test_a_kept_run_is_of_the_code_without_its_comments_and_docstrings(tmp_path, monkeypatch):
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    part, file = mutation.Part(("one.py",), ()), tmp_path / "one.py"

    def digests(text):
        file.write_text(text, encoding="utf-8")
        return part.code_digest, part.digest

    code, whole = digests('def one():\n    """Return 1."""\n    return 1\n')
    same, other = digests('def one():\n    """Return one,\n    which is 1."""\n\n    # no more\n    return 1\n')
    assert same == code
    assert other != whole
    assert digests('def one():\n    """Return 1."""\n    return 2\n')[0] != code
