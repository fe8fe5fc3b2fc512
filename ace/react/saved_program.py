"""An optimized program in a folder: the state of its agent, and the bullets of its playbook."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory

from ace.core import AceError
from ace.playbook import Playbook
from ace.react.generator import ReActGenerator

PROGRAM, PLAYBOOK = "program.json", "playbook.jsonl"


def save_program(agent: ReActGenerator, folder: Path) -> None:
    """Write an agent's state and the bullets of its playbook."""
    alone = copy(agent)  # the lessons are a file of their own, which people read
    alone.playbook = None
    with TemporaryDirectory(dir=folder, prefix=".") as fresh:
        alone.save(Path(fresh) / PROGRAM)  # pyright: ignore[reportUnknownMemberType]
        (Path(fresh) / PROGRAM).replace(folder / PROGRAM)
    if isinstance(agent.playbook, Playbook):
        agent.playbook.export_jsonl(folder / PLAYBOOK)


def load_optimized(folder: str | Path, agent: ReActGenerator) -> ReActGenerator:
    """Load what a job found into an agent, `load_optimized("job", agent)`: instructions, demos, tool cards, playbook.

    Args:
        folder: Of the job, `ace optimize --out`.
        agent: An agent with the same signature; it stays as it is. When its tools are not those of the job, a warning and
            `tool_changes` of the result say exactly what is different.

    Raises:
        AceError: The folder holds no finished job.
    """
    check_optimized(folder := Path(folder))
    loaded = agent.deepcopy()
    loaded.load(folder / PROGRAM)  # pyright: ignore[reportUnknownMemberType]
    if (folder / PLAYBOOK).exists():
        loaded.playbook = Playbook()
        loaded.playbook.import_jsonl(folder / PLAYBOOK, trust=True)
    return loaded


def check_optimized(folder: Path) -> None:
    """Refuse a folder without a finished job, `check_optimized(Path("job"))`, before anything was spent.

    Raises:
        AceError: It says what to do.
    """
    if not (folder / PROGRAM).exists():
        raise AceError(
            f"{str(folder)!r} holds no {PROGRAM}: run the job again to let it finish, or name another folder"
        )
