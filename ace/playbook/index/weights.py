"""Where the default embedder's weights are: the build has put them into this package."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ace.core import PlaybookError

PACKAGED = Path(__file__).parent / "minilm"
"""The build puts them here."""
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the published weights that the graph is made of."""
FILES = ("model.onnx", "tokenizer.json")
MANIFEST = "manifest.json"
"""SHA-256 of the weights and of each file that was made of them."""


def weights_folder(packaged: Path = PACKAGED) -> Path:
    """Return the folder with the graph and its tokenizer, whole and as they were made.

    Raises:
        PlaybookError: They are not there, or are not the ones expected.
    """
    if not whole(packaged):
        raise PlaybookError(
            f"the embedder's weights are not in {packaged.name!r} of this installation, or are damaged: "
            "install the package again as before, with pip's --force-reinstall --no-deps and the package index in reach"
        )
    return packaged


def whole(folder: Path) -> bool:
    """Check whether graph and tokenizer are there as they were made, of the weights expected."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest["weights"] == WEIGHTS_SHA256 and all(_digest(folder / name) == manifest[name] for name in FILES)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
