"""The project itself: what is imported when, contracts, claims, and calls that do not belong here."""

import importlib.metadata
import importlib.util
import json
import re
import shlex
import sys
import tomllib

import jsonschema
import pytest
from conftest import ROOT
from pydantic import ValidationError
from rich.console import Console

import ace

ISSUES = (
    "real",
    "loop",
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
    "proof",
    "reach",
    "memory",
    "trust2",
    "plans",
    "graphs",
    "face",
)


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_import_and_help_load_nothing_heavy():
    assert load(ROOT / "benchmarks" / "agent" / "imports.py").main()["names"] == []


def test_the_contracts_have_not_drifted():
    for name, text in load(ROOT / "contracts" / "export.py").schemas().items():
        assert (ROOT / "contracts" / name).read_text(encoding="utf-8") == text, f"{name} differs; run: make contracts"
        jsonschema.validators.validator_for(json.loads(text)).check_schema(json.loads(text))


def test_the_version_is_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert ace.__version__ == version
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (
        re.search(r"^## (.+?)(?: \(.*\))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
        == version
    )


def test_the_links_of_the_top_level_are_links():
    for name in ("playbook", "tools"):
        assert (ROOT / name).is_symlink()
        assert (ROOT / name).resolve() == (ROOT / "ace" / name).resolve()


FIGURE = '[[claim.figures]]\nsays = "s"\nat = "a"\nunit = "u"\n'


def test_claims_are_complete_and_name_known_issues():
    verify = load(ROOT / "benchmarks" / "verify.py")
    claims = tomllib.loads((ROOT / "benchmarks" / "claims.toml").read_text(encoding="utf-8"))["claim"]
    assert 20 < len(claims) <= 110
    for claim in claims:
        row = verify.Claim(**claim)
        for figure in row.figures:
            assert figure.of or figure.bound != "== 0", f"{figure.name}: a count of 0 says of how many (`of`)"
        assert claim["issue"] in ISSUES
        script = re.search(r"-m (benchmarks[.\w]+)", claim["command"])
        file = ROOT / (script[1].replace(".", "/") + ".py") if script else ROOT / "README.md"
        source = claim["command"] + (" " + file.read_text(encoding="utf-8") if script else "")
        # a recording's replies are a real model's; what a stand-in plays there are the teachers, which its report says
        if "benchmarks.real." not in claim["command"] and re.search(r"SimulatedLM|simulated:|StandIn", source):
            for figure in row.figures:
                assert "simulated" in figure.says, f"{figure.name}: what a stand-in produced is called so"


def test_verify_says_missing_and_fails(tmp_path, monkeypatch, capsys):
    verify = load(ROOT / "benchmarks" / "verify.py")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "claims.toml").write_text(
        f'[[claim]]\nname = "x"\nissue = "evidence"\ncommand = "nonsense {{json}}"\n{FIGURE}name = "x"\nbound = ">= 1"\n'
        '[[claim]]\nname = "y"\nissue = "playbook"\ncommand = "python -c \'import sys; open(sys.argv[1], \\"w\\").write(chr(53))\' {json}"\n'
        f'{FIGURE}name = "y"\nbound = ">= 1"\n'
    )
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    monkeypatch.setenv("JSON", str(tmp_path / "rows.json"))
    assert verify.main() == 1
    assert "missing" in capsys.readouterr().out
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["name"], row["measured"], row["ok"]) for row in rows] == [("x", None, False), ("y", None, False)]


WRITES = """import sys; open(sys.argv[1], 'w').write('{{"a": 0}}')"""
CLAIM = f'name = "x"\nissue = "i"\ncommand = "c"\n{FIGURE}name = "x"\n'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f'[[claim]]\n{CLAIM}bound = "== 0"\n[[claims]]\n{CLAIM}bound = "== 0"\n', "claims\n"),
        (f'[[claim]]\n{CLAIM}bound = "== 0"\n' * 2, "named 'x'"),
        (f'[[claim]]\n{CLAIM}bound = "== 1.2.3"\n', "claim.0.figures.0.bound\n"),
    ],
)
def test_claims_that_cannot_be_read_are_an_error(text, named, tmp_path, monkeypatch, capsys):
    verify = load(ROOT / "benchmarks" / "verify.py")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "claims.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    monkeypatch.setattr(verify, "rows_of", lambda *_: [])
    monkeypatch.setattr(sys, "argv", ["verify.py"])
    assert verify.main() == 1
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "of", "problem"),
    [
        ("print(open(sys.argv[1], 'w').write('{\"a\": 0, \"n\": 3}'))", "n", ""),
        ("open(sys.argv[1], 'w').write('{\"a\": 0, \"n\": 0}')", "n", "counts over nothing"),
        ("open(sys.argv[1], 'w').write('{\"a\": 0}')", "n", "no figure 'n'"),
        ("open(sys.argv[1], 'w').write('{\"b\": 0}')", "", "no figure 'a'"),
        ("open(sys.argv[1], 'w').write('{\"a\": NaN}')", "", "'a' is nan"),
        ("open(sys.argv[1], 'w').write('{\"a\": null}')", "", "no figure 'a'"),
        ("open(sys.argv[1], 'w').write('{\"a\": \"0\"}')", "", "'0' is no number"),
        ("open(sys.argv[1], 'w').write('{\"a\": false}')", "", "False is no number"),
        ("open(sys.argv[1], 'w').write('{\"a\": 0, \"n\": true}')", "n", "True is no number"),
        ("open(sys.argv[1], 'w').write('{\"a\": 0}'); sys.exit(3)", "", "exit code 3"),
        ("open(sys.argv[1], 'w').write('{\"a\"')", "", "no JSON"),
        ("pass", "", "no JSON"),
        ("sys.stdout.buffer.write(bytes([255])); sys.exit(3)", "", "exit code 3: \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_what_could_not_be_measured_is_red(code, of, problem):
    verify = load(ROOT / "benchmarks" / "verify.py")
    command = shlex.join(["python", "-c", f"import sys; {code}", "{json}"]).replace("{", "{{").replace("}", "}}")
    claim = verify.Claim(
        name="x",
        issue="i",
        command=command.replace("{{json}}", "{json}"),
        figures=[{"name": "x", "says": "", "at": "a", "bound": "== 0", "unit": "", "of": of}],
    )
    (row,) = verify.rows_of([claim], ROOT, Console(quiet=True))
    assert (row.ok, problem in row.problem, row.measured) == (not problem, True, None if problem else 0.0), row


@pytest.mark.parametrize("command", ["python {jsn}", "python {}", "python {", "python '", "", "no/such {json}"])
def test_a_command_that_cannot_be_filled_in_makes_its_own_row_red(command):
    verify = load(ROOT / "benchmarks" / "verify.py")
    rest = {"issue": "i", "figures": [{"name": "x", "says": "", "at": "a", "bound": "== 0", "unit": ""}]}
    good = f"python -c {shlex.quote(WRITES)} {{json}}"
    claims = [verify.Claim(name="bad", command=command, **rest), verify.Claim(name="good", command=good, **rest)]
    bad, good = verify.rows_of(claims, ROOT, Console(quiet=True))
    assert (bad.ok, bad.problem.startswith("no command: "), good.ok) == (False, True, True), (bad, good)


def test_a_problem_is_shown_as_it_is(capsys):
    verify = load(ROOT / "benchmarks" / "verify.py")
    row = verify.VerifyRow(
        name="x",
        claim="x",
        issue="i",
        claimed="== 0",
        measured=None,
        unit="",
        ok=False,
        seconds=0,
        problem="[/no] [tag]",
    )
    verify.show([row], Console(width=200))
    assert "missing: [/no] [tag]" in capsys.readouterr().out


def test_a_claim_with_an_unknown_key_is_refused():
    with pytest.raises(ValidationError, match="bond"):
        load(ROOT / "benchmarks" / "verify.py").Claim(
            name="x", issue="i", command="c", figures=[{"name": "x", "says": "", "at": "a", "bond": "== 0", "unit": ""}]
        )


def test_nothing_is_pickled_or_evaluated():
    for path in (ROOT / "ace").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bpickle\.|\bimport pickle|(?<![\w.\"])eval\(|(?<![\w.])exec\(", text), path


def test_the_evidence_that_is_shown_is_what_was_measured():
    """The tables between the marks are those of `benchmarks/evidence.json`; `make evidence` writes both."""
    evidence = load(ROOT / "benchmarks" / "evidence.py")
    found = json.loads(evidence.KEPT.read_text(encoding="utf-8"))
    assert set(found) == set(evidence.PARTS)
    text = evidence.PAGE.read_text(encoding="utf-8")
    assert evidence.page(text, found) == text, "run: python -m benchmarks evidence --show"
    middle = found["curves"]["in_the_middle"]
    for figure in (middle["success"], middle["gain_success"]):
        assert f"{figure['value']:.0f}" in text
        assert f"{figure['low']:.0f} to {figure['high']:.0f}" in text


def test_what_a_package_index_shows_has_no_link_into_this_folder():
    shown = importlib.metadata.metadata("dspy-ace")["Description"]
    assert "# ACE for DSPy" in shown
    assert "ReActGenerator(tools=[refund]" in shown
    assert not re.search(r"\]\((?!https?:)", shown)
    assert "Quickstart" in shown
