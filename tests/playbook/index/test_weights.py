"""Where the default embedder's weights come from."""

import json
import shutil

import pytest

from ace.core import PlaybookError
from ace.playbook.index.weights import FILES, MANIFEST, PACKAGED, WEIGHTS_SHA256, weights_folder, whole


def test_the_package_carries_them_whole():
    assert whole(PACKAGED)
    assert weights_folder() == PACKAGED
    manifest = json.loads((PACKAGED / MANIFEST).read_text())
    assert manifest["weights"] == WEIGHTS_SHA256
    assert set(manifest) == {"weights", *FILES}


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_what_is_damaged_is_not_used(tmp_path, name, harm):
    folder = shutil.copytree(PACKAGED, tmp_path / "copy")
    assert weights_folder(folder) == folder
    if harm == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes((folder / name).read_bytes()[:-9])
    with pytest.raises(PlaybookError, match="install the package again as before, with pip's --force-reinstall"):
        weights_folder(folder)


def test_other_weights_are_refused(tmp_path):
    folder = shutil.copytree(PACKAGED, tmp_path / "copy")
    manifest = json.loads((folder / MANIFEST).read_text()) | {"weights": "0" * 64}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert not whole(folder)
