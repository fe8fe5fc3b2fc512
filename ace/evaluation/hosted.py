"""Hosted models by name: where they are asked, and whether replies may come out of a cache."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import dspy
from dspy.clients import Cache

from ace.evaluation.reach import address_of, told
from ace.react.model import CACHED

DESCRIPTIONS = ("{base}/models", "{root}/props", "{root}/api/tags")
"""Where servers tell what they have loaded: OpenAI's API, llama.cpp with the file's path, Ollama with digests."""
CHANGING = frozenset({"created", "modified_at", "expires_at", "is_processing", "total_slots"})
"""What changes in those answers while the model stays the same."""


@dataclass(frozen=True)
class ModelServer:
    """How hosted models are reached, `ModelServer("http://127.0.0.1:8080/v1").lm("openai/local")`.

    Args:
        api_base: Base URL of an OpenAI-compatible server; by default the provider's own.
        cache: Whether DSPy's cache may answer. The server's address and what it tells about its models are part of a
            request's key, and `RunUsage.cached` counts the replies.
    """

    api_base: str | None = None
    cache: bool = False

    def lm(self, spec: str) -> dspy.LM:
        """Return the model of a name.

        Raises:
            SuiteError: No server answers at its address; nothing was spent.
        """
        base = address_of(spec, self.api_base)
        described = self._described(base, spec) if base else ""
        if self.cache:
            before = vars(dspy).get("cache")
            known = before.servers if isinstance(before, ReplyCache) else frozenset[str]()
            cast(Any, dspy).cache = ReplyCache(known | {f"{base} {described}"})
        key = {"api_base": self.api_base, "api_key": os.environ.get("OPENAI_API_KEY", "none")} if self.api_base else {}
        return dspy.LM(spec, cache=self.cache, **cast("dict[str, Any]", key))

    def _described(self, base: str, spec: str) -> str:
        """Return what a server tells about its models, as far as the cache needs it."""
        base = base.rstrip("/")
        places = DESCRIPTIONS if self.cache else DESCRIPTIONS[:1]
        found = [
            told(p.format(base=base, root=base.removesuffix("/v1")), spec, own=bool(self.api_base)) for p in places
        ]
        return json.dumps([_lasting(answer) for answer in found], sort_keys=True)


PROVIDERS = ModelServer()
"""Each provider's own server, and no cache."""


class ReplyCache(Cache):
    """DSPy's cache of replies, for some servers; what is taken out of it is counted with its tokens.

    Args:
        servers: The address of each server that is asked, and what it tells of its models.
        folder: Where replies are kept; DSPy's own folder by default.
    """

    def __init__(self, servers: frozenset[str] = frozenset(), folder: Path | None = None) -> None:
        self.servers = servers
        self._key = sha256("\n".join(sorted(servers)).encode()).hexdigest()
        # restricted: what lies in the cache folder must not be able to run code
        super().__init__(
            enable_disk_cache=True,
            enable_memory_cache=True,
            disk_cache_dir=str(folder or dspy.clients.DISK_CACHE_DIR),
            disk_size_limit_bytes=int(os.environ.get("DSPY_CACHE_LIMIT", 3e10)),
            restrict_pickle=True,
        )

    def cache_key(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> str:
        """Return the key as DSPy's, for these servers alone."""
        return super().cache_key({**request, "servers": self._key}, ignored_args_for_cache_key)

    def get(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> Any:
        """Get a reply as DSPy does, which tells the request's tracker nothing of a reply that it finds."""
        found = super().get(request, ignored_args_for_cache_key)
        tracker: Any = cast(Any, dspy.settings).usage_tracker
        if found is not None and tracker is not None:
            entries = cast("Mapping[str, Any]", self.memory_cache)
            # the usage still stands here; `found` is a copy without it
            kept = entries[self.cache_key(request, ignored_args_for_cache_key)]
            usage: Any = cast("Any", kept)["usage"] if isinstance(kept, dict) else getattr(kept, "usage", None)
            tracker.add_usage("cached", {**dict(usage or {}), CACHED: 1})
        return found


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lasting(item) for name, item in cast("dict[str, Any]", value).items() if name not in CHANGING}
    return [_lasting(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value
