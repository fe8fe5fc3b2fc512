import json

import pytest
from conftest import DATA, needs_data, needs_workbench

from ace.core import SuiteError
from ace.playbook import Playbook
from benchmarks.retrieval.bench import BenchTask, bench_retrieval, read_tasks, suite_tasks


def tasks():
    return [
        BenchTask(id=f"{verb}{n}", query=f"{verb} the {thing}", tools=[verb] if verb != "look" else [], group=verb)
        for verb in ("refund", "cancel", "look")
        for n, thing in enumerate(("order", "orders", "ordered thing"))
    ]


def test_hits_are_counted_per_guard_and_subset(embedder):
    report = bench_retrieval(tasks(), embedder=embedder)
    assert (report.loo.all.n, report.loo.nonempty.n, report.loo.empty.n) == (9, 6, 3)
    assert report.loo.all.hit_3 == 100
    assert report.group.all.hit_3 == 0, "the whole group is left out, and nothing else has its tools"
    plain = report.model_dump(by_alias=True)
    assert set(plain["loo"]["all"]) == {"n", "hit@1", "hit@3", "interval"}


def test_swapping_retrieve_moves_the_figure(embedder, monkeypatch):
    monkeypatch.setattr(Playbook, "retrieve", lambda self, query, **options: list(self.bullets[:3]))
    assert bench_retrieval(tasks(), embedder=embedder).loo.all.hit_3 < 100


def test_bad_files_are_refused_by_line(tmp_path):
    path = tmp_path / "x.jsonl"
    for text, words in (('{"id": "a"}', "line 1"), ("", "no task"), ("nonsense", "line 1")):
        path.write_text(text)
        with pytest.raises(SuiteError, match=words):
            read_tasks(path)
    row = json.dumps({"id": "a", "query": "q", "tools": []})
    path.write_text(f"{row}\n{row}\n")
    with pytest.raises(SuiteError, match="twice"):
        read_tasks(path)
    with pytest.raises(SuiteError, match="cannot read"):
        read_tasks(tmp_path / "none.jsonl")


@pytest.mark.full
@needs_workbench
def test_workbench_is_found(workbench):
    report = bench_retrieval(suite_tasks(workbench))
    for subset in ("all", "nonempty"):
        assert getattr(report.loo, subset).hit_3 >= 91
        assert getattr(report.group, subset).hit_3 >= 65


@pytest.mark.full
@needs_data
def test_bfcl_turns_are_found_with_the_same_constants():
    report = bench_retrieval(read_tasks(DATA / "bfcl_turns" / "tasks.jsonl"))
    assert report.loo.all.hit_3 >= 74
    assert report.group.all.hit_3 >= 75
