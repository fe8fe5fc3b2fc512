"""The indexes on disk, beside the store: read when they are whole and of this book, rebuilt otherwise."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ace.core.durable import move_into
from ace.playbook.index.dense import DenseIndex
from ace.playbook.index.lexical import LexicalIndex

FORMAT = 2
_FILES = ("dense.faiss", "lexical.npz")


def cache_folder() -> Path:
    """The user's cache folder for files that can be rebuilt."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "dspy-ace"


class Header(BaseModel, frozen=True, extra="forbid"):
    """What a saved index belongs to."""

    format: int
    book_id: str
    embedder: str
    masker: str
    dimension: int
    quantization: str
    revision: int
    checksum: str
    """Of the journal's last entry at that revision."""
    trained_on: int
    vectors: int
    texts: int
    digests: dict[str, str]


@dataclass(frozen=True)
class Wanted:
    """What an index has to belong to, to be read."""

    book_id: str
    embedder: str
    masker: str
    quantization: str


class IndexFolder:
    """A folder with the saved indexes of one book and one embedder.

    Args:
        path: The folder; it is made when something is saved.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def header(self, wanted: Wanted) -> Header | None:
        """The header of an index that is there and of this book; None otherwise."""
        try:
            header = Header.model_validate_json((self.path / "header.json").read_bytes())
        except (OSError, ValidationError):
            return None
        if header.format != FORMAT or {**asdict(wanted)} != {name: getattr(header, name) for name in asdict(wanted)}:
            return None
        return header

    def load(self, header: Header, dense: DenseIndex, lexical: LexicalIndex) -> bool:
        """Fill both indexes from the files; False when a file is missing or damaged."""
        try:
            if any(_digest(self.path / name) != header.digests.get(name) for name in _FILES):
                return False
            dense.load(self.path / "dense.faiss", header.trained_on)
            lexical.load(self.path / "lexical.npz")
        except (OSError, RuntimeError, ValueError, KeyError):  # FAISS and numpy, of a file from elsewhere
            return False
        return (len(dense), len(lexical)) == (header.vectors, header.texts)

    def save(self, wanted: Wanted, dense: DenseIndex, lexical: LexicalIndex, revision: int, checksum: str) -> bool:
        """Replace the saved files as a whole; False when the disk refuses: an index can always be rebuilt."""
        fresh: Path | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(prefix=f"{self.path.name}.", dir=self.path.parent))
            dense.save(fresh / "dense.faiss")
            lexical.save(fresh / "lexical.npz")
            header = Header(
                format=FORMAT,
                dimension=dense.dimension,
                revision=revision,
                checksum=checksum,
                trained_on=dense.trained_on,
                vectors=len(dense),
                texts=len(lexical),
                digests={name: _digest(fresh / name) for name in _FILES},
                **asdict(wanted),
            )
            (fresh / "header.json").write_text(json.dumps(header.model_dump(), indent=1), encoding="utf-8")
            # the header goes last: a reader in between finds digests that do not fit, and makes its own index
            move_into(self.path, fresh, (*_FILES, "header.json"))
        except (OSError, RuntimeError):
            return False
        finally:
            if fresh is not None:
                shutil.rmtree(fresh, ignore_errors=True)
        return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
