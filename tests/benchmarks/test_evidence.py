"""`benchmarks/evidence.py`: which figures are taken, and of what code they are."""

import sys

import pytest
from rich.console import Console

from benchmarks import evidence


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("ace/testing", "ace/playbook/index/minilm", "benchmarks/suites", "evidence"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    monkeypatch.setattr(evidence, "FOLDER", tmp_path / "evidence")
    for name, file in {"KEPT": "evidence.json", "PAGE": "evidence.md", "PLOT": "evidence.svg"}.items():
        monkeypatch.setattr(evidence, name, tmp_path / file)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("ace/suite.py", True),
        ("ace/testing/rates.toml", True),
        ("ace/pairs.jsonl", True),
        ("ace/words.txt.gz", True),
        ("ace/some.json", True),
        ("ace/playbook/index/minilm/tokenizer.json", False),
        ("benchmarks/learning/curves.py", True),
        ("benchmarks/suites/pyproject.toml", True),
        ("benchmarks/claims.toml", False),
        ("benchmarks/mutation_equivalents.toml", False),
        ("benchmarks/mutation_memory.json", False),
        ("benchmarks/evidence.json", False),
    ],
)
def test_the_digest_is_of_code_and_data_that_a_figure_can_rest_on(file, counts, project):
    before = evidence.code_digest()
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).write_text("changed", encoding="utf-8")
    assert (evidence.code_digest() != before) == counts


@pytest.mark.parametrize("stamp", [None, "of other code", "of this code"])
def test_only_figures_of_this_code_replace_what_was_published(stamp, project, capsys):
    evidence.KEPT.write_text('{"curves": "published"}', encoding="utf-8")
    (project / "evidence" / "curves.json").write_text('"new"', encoding="utf-8")
    if stamp:
        text = evidence.code_digest() if stamp == "of this code" else stamp
        (project / "evidence" / "curves.digest").write_text(text, encoding="utf-8")
    taken = stamp == "of this code"
    assert evidence.kept(Console()) == {"curves": "new" if taken else "published"}
    said = "curves: kept as it stands in evidence.json; evidence/curves.json was not made by this code"
    assert (said in capsys.readouterr().out) != taken


@pytest.mark.parametrize("words", [("--only", "decisions"), ("--only", "tau2", "decisions"), ("--show",)])
def test_a_part_without_its_data_is_named_at_the_end(words, project, monkeypatch, capsys):
    evidence.PAGE.write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["evidence.py", "--data", str(project / "none"), *words])
    assert evidence.main() == (words != ("--show",))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(f"{project / 'none'}: {', '.join(words[1:])}") == (words != ("--show",))
    assert evidence.KEPT.exists()
