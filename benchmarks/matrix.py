"""The package on each Python that this machine offers: ``python -m benchmarks.matrix [--smoke]``.

``--smoke``: every other Python gets an environment with nothing but the package, and does what `tests/smoke.py` asks.
Without it every Python, this one included, runs the tests twice: with the newest dependencies, and with the lowest direct
ones that pyproject.toml allows; uv works out which those are, pip installs them. Environments lie in ``.venv-matrix`` and
are kept until the metadata change.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-matrix"
MINORS = (11, 12, 13, 14)
METADATA = ("pyproject.toml", "constraints.txt", "hatch_build.py", "benchmarks/suites/pyproject.toml")


def pythons() -> dict[str, str]:
    """Find version to interpreter, of those that start."""
    found: dict[str, str] = {}
    for minor in MINORS:
        known = [
            shutil.which(f"python3.{minor}"),
            *sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin/python"))),
        ]
        for path in filter(None, known):
            done = subprocess.run(
                [path, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True
            )
            if done.returncode == 0 and done.stdout.strip() == str(minor):
                found[f"3.{minor}"] = path
                break
    return found


def digest() -> str:
    """Hash what decides what is installed."""
    return sha256(b"".join((ROOT / name).read_bytes() for name in METADATA)).hexdigest()


def environment(name: str, python: str, *packages: str, constraints: Path | None = None) -> Path:
    """Return an environment's interpreter, made again when the metadata changed."""
    folder = FOLDER / name
    stamp, binary = folder / "made-of", folder / "bin" / "python"
    if stamp.exists() and stamp.read_text() == digest():
        return binary
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [binary, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, *(["-c", constraints] if constraints else []), *packages], check=True, cwd=ROOT)
    stamp.write_text(digest())
    return binary


def lowest(version: str, extra: str) -> Path:
    """Write the lowest direct dependencies of a Python as constraints."""
    out = FOLDER / f"lowest-{version}.txt"
    uv = environment("uv", sys.executable, "uv").with_name("uv")
    command = [uv, "pip", "compile", "pyproject.toml", "--extra", extra, "--resolution", "lowest-direct", "--quiet"]
    command += ["--only-binary", ":all:"]  # what has no wheel for a Python was never meant for it
    subprocess.run([*command, "--python-version", version, "-o", out], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return out


def smoke(version: str, python: str, *, low: bool = False, package: str = ".") -> int:
    """Try the package alone, asked from another folder."""
    name, constraints = f"{version}-smoke{'-lowest' if low else ''}", lowest(version, "serve") if low else None
    if package != ".":
        name = f"{version}-{package.rpartition('.')[2]}"
        shutil.rmtree(FOLDER / name, ignore_errors=True)  # another file may have the same name
    binary = environment(name, python, f"{package}[serve]", constraints=constraints)
    with tempfile.TemporaryDirectory() as elsewhere:
        shutil.copy(ROOT / "tests" / "smoke.py", elsewhere)
        return subprocess.run([binary, "smoke.py"], cwd=elsewhere).returncode


def tests(version: str, python: str, *, low: bool) -> int:
    """Run the tests, from the checkout."""
    name = f"{version}-{'lowest' if low else 'newest'}"
    constraints = lowest(version, "serve") if low else None
    binary = environment(name, python, "-e", ".[dev]", "-e", "benchmarks/suites[tau2]", constraints=constraints)
    return subprocess.run(
        [binary, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", "not full"], cwd=ROOT
    ).returncode


def main() -> None:
    """Run, and print a table; exit 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="only the smoke set, on every other Python")
    parser.add_argument("--lowest", action="store_true", help="with the lowest dependencies only, on this Python, too")
    parser.add_argument("--python", action="append", help="only this one, as in 3.12; repeat for more")
    parser.add_argument(
        "--dist", type=Path, help="the smoke set of each wheel and sdist in this folder, on every Python"
    )
    arguments = parser.parse_args()
    if arguments.dist is not None:
        files, codes = sorted(arguments.dist.resolve().glob("dspy_ace-*")), list[int]()
        for version, python in pythons().items():
            for file in files:
                print(f"{version}: {file.name}", flush=True)
                codes.append(smoke(version, python, package=str(file)))
        sys.exit(not codes or any(codes))
    own, table, failed = f"3.{sys.version_info[1]}", Table("Python", "what", "result", "seconds"), 0
    lows = [True] if arguments.lowest else [False] if arguments.smoke else [False, True]
    for version, python in pythons().items():
        skipped = arguments.smoke and version == own and not arguments.lowest
        if skipped or (arguments.python and version not in arguments.python):
            continue
        for low in lows:
            what = f"{'smoke' if arguments.smoke else 'tests'}, {'lowest' if low else 'newest'}"
            started = time.monotonic()
            try:
                code = (smoke if arguments.smoke else tests)(version, python, low=low)
            except subprocess.CalledProcessError as error:
                code = error.returncode
            failed += code != 0
            table.add_row(version, what, "ok" if code == 0 else f"exit {code}", f"{time.monotonic() - started:.0f}")
    Console().print(table if table.row_count else f"no other Python than {own} is on this machine")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
