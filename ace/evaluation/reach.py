"""Whether a hosted model can be asked, by its name: found out in a moment, before anything heavy is imported."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ace.core import SuiteError

if TYPE_CHECKING:
    from ace.tasks import TaskOutput

ADDRESSES: dict[str, tuple[tuple[str, ...], str]] = {
    "openai": (("OPENAI_API_BASE", "OPENAI_BASE_URL"), ""),
    "ollama": (("OLLAMA_API_BASE",), "http://localhost:11434"),
    "ollama_chat": (("OLLAMA_API_BASE",), "http://localhost:11434"),
    "lm_studio": (("LM_STUDIO_API_BASE",), ""),
    "hosted_vllm": (("HOSTED_VLLM_API_BASE",), ""),
}
"""By provider, the variables that name its server, and the address where it is by default."""
KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
"""By provider, the variables of which one holds the key."""
SECONDS = 1.5
"""How long a server may take to tell which models it has."""
NO_PROVIDER = "LLM Provider NOT provided"
"""LiteLLM's words for a model that nobody serves, a misspelt one for example."""
FATAL = ("LMAuthError", "LMBillingError", "LMConfigurationError", "LMNotConfiguredError", "LMUnsupportedModelError")
"""DSPy's names of lasting errors: no further run can succeed."""
_KEY = re.compile(r"\b[A-Z][A-Z0-9_]*_API_KEY\b")


def check_named(spec: str) -> None:
    """Refuse to go on without the name of a model: `check_named("openai/llama3.2")`.

    Raises:
        SuiteError: There is none.
    """
    if not spec:
        raise SuiteError("no language model; name one (--lm NAME) or set ACE_LM, for example to ollama_chat/llama3.2")


def check_model(spec: str, api_base: str | None = None) -> None:
    """Refuse a model that cannot be asked: its name, its key or its server is missing.

    Stand-ins, recorded runs and providers that are not known here are left to those who ask them.

    Args:
        spec: As `--lm` names it.
        api_base: Base URL of a server of one's own.

    Raises:
        SuiteError: It says what to do; nothing was spent.

    Examples:
        >>> check_model("simulated:oracle")
        >>> check_model("llama3.2")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ace.core.errors.SuiteError: nobody serves 'llama3.2': write PROVIDER/MODEL, as openai/llama3.2 with ...
    """
    provider, named, _ = spec.partition("/")
    if not spec or spec == "simulated" or ":" in provider:
        return
    known = _providers()
    if not named or (known and provider not in known):
        raise SuiteError(in_words(NO_PROVIDER, spec))
    if base := address_of(spec, api_base):
        _check_served(base.rstrip("/"), spec, own=bool(api_base))
    elif provider in KEYS and not any(map(os.environ.get, KEYS[provider])):
        raise SuiteError(no_key(spec, KEYS[provider][0]))


def _check_served(base: str, spec: str, *, own: bool) -> None:
    """Refuse a model that its server does not have, where the server says so.

    Many servers take any name, and list one only: what is not listed is refused only by a server that tells of a listed one,
    one by one, and does not know this one.
    """
    provider, _, named = spec.partition("/")
    if provider.startswith("ollama") and not base.endswith("/v1"):
        has = names_in(told(f"{base}/api/tags", spec, own=own))
        if has and not {named, f"{named}:latest"} & set(has):
            raise SuiteError(
                f"Ollama at {base} has no model {named!r}; run `ollama pull {named}`, or name one of {_some(has)}"
            )
        return
    has, place = names_in(told(f"{base}/models", spec, own=own)), f"{base}/models"
    if named in has or not has or told(f"{place}/{has[0]}", spec, own=own) is None:
        return
    if told(f"{place}/{named}", spec, own=own) is None:
        raise SuiteError(f"the server at {base} has no model {named!r}; name one that it has: {_some(has)}")


def names_in(told: Any) -> list[str]:
    """Find the models in what a server tells, as OpenAI's API or Ollama has it.

    Examples:
        >>> names_in({"object": "list", "data": [{"id": "llama3.2"}]}), names_in({"models": [{"name": "qwen:latest"}]})
        (['llama3.2'], ['qwen:latest'])
    """
    given = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    rows = cast("list[dict[str, Any]]", given.get("data") or given.get("models") or [])
    return [str(row.get("id") or row.get("name")) for row in rows]


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")


def _providers() -> list[str]:
    """Read the names that LiteLLM serves out of its source: to import it takes seconds. None where they stand elsewhere."""
    found = importlib.util.find_spec("litellm")
    if found is None:
        return []
    try:
        text = Path(found.origin or "").with_name("types").joinpath("utils.py").read_text(encoding="utf-8")
    except OSError:
        return []
    providers = text.partition("class LlmProviders(")[2].partition("\n\n\n")[0]
    return re.findall(r'^    [A-Z0-9_]+ = "([^"]+)"$', providers, re.M)


def check_answered(output: TaskOutput, spec: str, kept: str) -> None:
    """Refuse to go on with a model that takes no request: a name or a key that is wrong is no task that failed.

    Args:
        output: A run.
        spec: The model.
        kept: What becomes of what was done before, for the message.

    Raises:
        SuiteError: No later run would be answered either.
    """
    error = output.error
    if error is None or error.kind != "model_transport":
        return
    if error.message.startswith(FATAL) or NO_PROVIDER in error.message:
        raise SuiteError(f"the language model takes no request: {in_words(error.message, spec)}; {kept}")


def address_of(spec: str, api_base: str | None = None) -> str:
    """Return where a model is asked; empty for the provider's own address.

    Examples:
        >>> address_of("openai/local", "http://127.0.0.1:8080/v1")
        'http://127.0.0.1:8080/v1'
    """
    names, default = ADDRESSES.get(spec.partition("/")[0], ((), ""))
    return api_base or next(filter(None, map(os.environ.get, names)), default)


def told(place: str, spec: str, *, own: bool) -> Any:
    """Ask what a server tells at an address, `told("http://127.0.0.1:8080/v1/models", "openai/local", own=True)`.

    Args:
        place: The address.
        spec: The model that is to be asked there.
        own: Whether the server was named with the model: the key goes nowhere where the requests would not take it.

    Returns:
        None where it is there and tells nothing.

    Raises:
        SuiteError: No server answers there, or it is no address.
    """
    base = place.removesuffix("/models")
    if not place.startswith(("http://", "https://")):
        raise SuiteError(f"{base!r} is no address of a model server; expected http://HOST:PORT/v1 or https://...")
    request = urllib.request.Request(place)
    if own:
        request.add_header("Authorization", f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)
    except (urllib.error.HTTPError, ValueError, TimeoutError):  # it is there, and tells nothing here
        return None
    except OSError as error:
        why = getattr(error, "reason", error)
        raise SuiteError(
            f"no model server answers at {base} for {spec!r} ({why}); start it, or name another with --api-base"
        ) from error


def no_key(spec: str, name: str) -> str:
    """Say what to do where a key is missing."""
    return f"no key for {spec}: set {name}, or name a server of your own with --api-base"


def in_words(message: str, spec: str) -> str:
    """Say in one sentence what a model's provider says in several lines, with what to do.

    Examples:
        >>> in_words("LMAuthError: ... Set OPENAI_API_KEY in the environment, or ...", "openai/gpt-5")
        'no key for openai/gpt-5: set OPENAI_API_KEY, or name a server of your own with --api-base'
    """
    if NO_PROVIDER in message:
        model = spec.rpartition("/")[2]
        return f"nobody serves {spec!r}: write PROVIDER/MODEL, as openai/{model} with --api-base URL, or ollama_chat/{model}"
    key = _KEY.search(message)
    if key is not None and message.startswith(("LMAuthError", "LMNotConfiguredError", "LMConfigurationError")):
        return no_key(spec, key[0])
    if message.startswith("LMUnsupportedModelError"):
        return f"its server has no model {spec!r}; name one that it has ({' '.join(message.split())[:200]})"
    return " ".join(message.split())[:300]
