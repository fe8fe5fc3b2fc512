"""`benchmarks/evidence.py`: which figures are taken, and of what code they are."""

import evidence
import pytest


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("ace/testing", "ace/playbook/index/minilm", "benchmarks/suites", "evidence"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
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
        ("benchmarks/curves.py", True),
        ("benchmarks/suites/pyproject.toml", True),
        ("benchmarks/claims.toml", False),
        ("benchmarks/mutation_equivalents.toml", False),
        ("benchmarks/mutation_memory.json", False),
        ("benchmarks/evidence.json", False),
    ],
)
def test_the_digest_is_of_code_and_data_that_a_figure_can_rest_on(file, counts, project):
    before = evidence.code_digest()
    (project / file).write_text("changed", encoding="utf-8")
    assert (evidence.code_digest() != before) == counts
