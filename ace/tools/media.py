"""What tools return that is no text: named in an observation, and shown to models that can take it."""

from __future__ import annotations

from typing import Any, cast

from ace.core import value_to_text

_PLAIN = frozenset({str, int, float, bool})


class Media(str):
    """An image, a sound or a file: as text it is its name, and `url` holds it.

    Examples:
        >>> picture = Media.of("image", "image/png", "iVBORw0KGgo=")
        >>> str(picture), picture.url[:22]
        ('[image: image/png, 9 bytes]', 'data:image/png;base64,')
    """

    kind: str
    url: str

    @classmethod
    def of(cls, kind: str, mime_type: str, data: str) -> Media:
        """Decode content that came as base64.

        Args:
            kind: ``image``, ``audio`` ...
            mime_type: ``image/png`` ...
            data: Base64.
        """
        named = cls(f"[{kind}: {mime_type or 'of unknown kind'}, {len(data) * 3 // 4:,} bytes]")
        named.kind, named.url = kind, f"data:{mime_type};base64,{data}"
        return named


def media_in(value: Any) -> list[Any]:
    """Return the media that a tool's value is or holds, `media_in(picture)`: `Media`, and DSPy's own types as
    `dspy.Image`."""
    if value is None or type(value) in _PLAIN:
        return []
    if isinstance(value, Media) or _is_dspys(value):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for part in cast("list[Any]", value) for item in media_in(part)]
    return []


def observed(value: Any) -> str:
    """Return a tool's value as a model reads it: `value_to_text`, where media are named."""
    if type(value) in _PLAIN:
        return value_to_text(value)
    if _is_dspys(value):
        return _named(value)
    if isinstance(value, (list, tuple)) and media_in(value):
        return "\n".join(observed(part) for part in cast("list[Any]", value))
    return value_to_text(value)


def _is_dspys(value: Any) -> bool:
    return any(base.__module__.startswith("dspy.adapters.types.base") for base in type(value).__mro__)


def _named(value: Any) -> str:
    kind, url = type(value).__name__.lower(), str(getattr(value, "url", ""))
    if url.startswith("data:"):
        head, _, data = url.partition(",")
        return str(Media.of(kind, head.removeprefix("data:").partition(";")[0], data))
    return f"[{kind}: {url[:200]}]" if url else f"[{kind}]"
