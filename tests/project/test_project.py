"""The project itself: what is imported when, contracts, claims, and calls that do not belong here."""

import importlib.util
import json
import re
import tomllib

import jsonschema
from conftest import ROOT

ISSUES = (
    "first-light",
    "run-time",
    "playbook",
    "learning",
    "evidence",
    "workflows",
    "structure",
    "lessons",
    "trust",
    "drop-in",
    "conversations",
)


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_import_and_help_load_nothing_heavy():
    assert load(ROOT / "benchmarks" / "imports.py").heavy_modules() == []


def test_the_contracts_have_not_drifted():
    for name, text in load(ROOT / "contracts" / "export.py").schemas().items():
        assert (ROOT / "contracts" / name).read_text(encoding="utf-8") == text, f"{name} differs; run: make contracts"
        jsonschema.validators.validator_for(json.loads(text)).check_schema(json.loads(text))


def test_the_links_of_the_top_level_are_links():
    for name in ("playbook", "tools"):
        assert (ROOT / name).is_symlink()
        assert (ROOT / name).resolve() == (ROOT / "ace" / name).resolve()


def test_claims_are_complete_and_name_known_issues():
    claims = tomllib.loads((ROOT / "benchmarks" / "claims.toml").read_text(encoding="utf-8"))["claim"]
    assert len({claim["name"] for claim in claims}) == len(claims) > 20
    for claim in claims:
        assert set(claim) == {"name", "issue", "says", "command", "figure", "bound", "unit"}
        assert re.fullmatch(r"(>=|<=|==|<) [\d.]+", claim["bound"])
        assert claim["issue"] in ISSUES
        script = re.search(r"benchmarks/\w+\.py", claim["command"])
        source = claim["command"] + (" " + (ROOT / script[0]).read_text(encoding="utf-8") if script else "")
        if re.search(r"SimulatedLM|simulated:|StandIn", source):
            assert "simulated" in claim["says"], f"{claim['name']}: what a stand-in produced is called so"


def test_verify_says_missing_and_fails(tmp_path, monkeypatch, capsys):
    verify = load(ROOT / "benchmarks" / "verify.py")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "claims.toml").write_text(
        '[[claim]]\nname = "x"\nissue = "evidence"\nsays = "s"\ncommand = "nonsense {json}"\nfigure = "a"\nbound = ">= 1"\nunit = "u"\n'
        '[[claim]]\nname = "y"\nissue = "playbook"\nsays = "s"\ncommand = "python -c \'import sys; open(sys.argv[1], \\"w\\").write(chr(53))\' {json}"\nfigure = ""\nbound = ">= 1"\nunit = "u"\n'
    )
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    monkeypatch.setenv("JSON", str(tmp_path / "rows.json"))
    assert verify.main() == 1
    assert "missing" in capsys.readouterr().out
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["name"], row["measured"], row["ok"]) for row in rows] == [("x", None, False), ("y", None, False)]


def test_nothing_is_pickled_or_evaluated():
    for path in (ROOT / "ace").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bpickle\.|\bimport pickle|(?<![\w.\"])eval\(|(?<![\w.])exec\(", text), path
