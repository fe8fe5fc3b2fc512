"""Settings of a policy: frozen, checked at once."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from ace.core import PolicyConfigInvalid


class PolicySettings(BaseModel, frozen=True, extra="forbid"):
    """Base class of settings: one that makes no sense is refused where it is written.

    Raises:
        PolicyConfigInvalid: It names each field that is wrong.
    """

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = [
                f"{'.'.join(str(part) for part in item['loc']) or 'settings'}: {item['msg']}"
                for item in error.errors(include_url=False, include_context=False)
            ]
            raise PolicyConfigInvalid(f"{type(self).__name__}: {'; '.join(problems)}") from error
