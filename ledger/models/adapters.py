"""Language models behind HTTP, through the package pydantic-ai-slim: OpenAI, compatible servers, and Anthropic.

The package is not loaded before the first request. Each call is one HTTP request, except the first call whose schema
the server refuses. The retries of the package and of its clients are off, because ``asking`` has its own. Redirects are
not followed, because a redirect could lead a memory to another server.
"""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from typing import Any

from ledger.core.settings import KEYS, SERVERS
from ledger.domain.errors import ModelError, RejectedError
from ledger.models.asking import failure_of
from ledger.models.port import NAME, ModelAnswer, ModelRequest, data_of, instructions_of, short

PROVIDERS = ("openai", "anthropic", "local")
_PACKAGES = {"openai": "openai", "anthropic": "anthropic", "local": "openai"}
_NO_SCHEMA = (400, 415, 422, 501)  # the status of a server that refuses schemas


def model_named(
    model_name: str, *, base_url: str | None = None, api_key: str | None = None, api_key_env: str | None = None
) -> Hosted:
    """Return the model behind "openai:NAME", "anthropic:NAME" or "local:NAME".

    "local" is an OpenAI-compatible server, such as Ollama, vLLM or llama.cpp.

    Args:
        model_name: The provider and the name of the model.
        base_url: The server; None for the variable OPENAI_BASE_URL or ANTHROPIC_BASE_URL, or the provider's server.
        api_key: The key; None for the value of ``api_key_env``.
        api_key_env: The variable that holds the key; None for the provider's own variable.

    Raises:
        RejectedError: The name has another form, a local model has no server, or a needed package is not installed.
    """
    provider, colon, name = model_name.partition(":")
    if not colon or provider not in PROVIDERS or not NAME.fullmatch(name):
        known = ", ".join(f"{known_provider}:NAME" for known_provider in PROVIDERS)
        raise RejectedError(
            f"no language model {model_name!r:.80}; the name of a model is one of: {known}", rule="model"
        )
    if provider == "local" and not base_url:
        raise RejectedError(f"{model_name!r:.80} needs the address of your server: set model_base_url", rule="model")
    for package in ("pydantic_ai", _PACKAGES[provider]):
        if find_spec(package) is None:
            raise RejectedError(
                f'the model {model_name!r:.80} needs the package {package}: pip install "belief-ledger[models]"',
                rule="extra",
            )
    base_url = base_url or os.environ.get(SERVERS.get(provider, "")) or None
    return Hosted(provider, name, base_url=base_url, api_key=api_key, api_key_env=api_key_env or KEYS.get(provider, ""))


class Hosted:
    """A model behind HTTP.

    A server is asked for an answer that fits the schema: by the structured output of the provider, or by words in the
    instructions if the server has no structured output.
    """

    def __init__(
        self, provider: str, name: str, *, base_url: str | None, api_key: str | None, api_key_env: str
    ) -> None:
        self.name: str = f"{provider}:{name}"
        self._provider, self._name, self._base_url = provider, name, base_url
        self._key, self._key_env = api_key, api_key_env
        self._in_words = False  # True after this server refused a schema

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def answer(self, request: ModelRequest, /) -> ModelAnswer:
        structured = request.schema is not None and not self._in_words
        try:
            return self._call(request, structured=structured)
        except ModelError as failed:
            if not structured or failed.status not in _NO_SCHEMA:
                raise
        answer = self._call(request, structured=False)
        self._in_words = True
        return answer

    def _call(self, request: ModelRequest, *, structured: bool) -> ModelAnswer:
        key = self._key or os.environ.get(self._key_env, "") if self._key_env or self._key else ""
        if not key and self._provider != "local":
            raise ModelError(f"the model {self.name!r} has no key", kind="NoKey")
        try:
            return asyncio.run(self._respond(request, key or "none", structured=structured))
        except ModelError:
            raise
        except Exception as error:
            failure = failure_of(error)
            raise ModelError(
                f"the model {self.name!r} failed ({failure.kind})",
                kind=failure.kind,
                status=failure.status,
                retry_after=failure.retry_after,
            ) from None  # the provider's message may hold secrets

    async def _respond(self, request: ModelRequest, key: str, *, structured: bool) -> ModelAnswer:
        import httpx2
        from pydantic_ai import direct, messages

        async with httpx2.AsyncClient(timeout=request.timeout, follow_redirects=False) as client:
            model = self._model(client, key)
            structured = structured and bool(model.profile.get("supports_json_schema_output"))
            message = messages.ModelRequest(
                parts=[messages.UserPromptPart(content=data_of(request))],
                # Also in words to a server at ``base_url``, because some servers accept a schema and ignore it.
                instructions=instructions_of(request, with_schema=not structured or self._base_url is not None),
            )
            response = await direct.model_request(
                model,
                [message],
                model_settings=_settings(request),
                model_request_parameters=_parameters(request, structured=structured),
                instrument=False,
            )
        return _answer(response)

    def _model(self, client: Any, key: str) -> Any:
        """Return a new client model for each call, because a client belongs to the event loop that made it."""
        if self._provider == "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            provider = AnthropicProvider(api_key=key, base_url=self._base_url, http_client=client)
            return AnthropicModel(self._name, provider=provider)
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        openai_provider = OpenAIProvider(api_key=key, base_url=self._base_url, http_client=client)
        if self._provider == "openai" and self._base_url is None:
            return OpenAIChatModel(self._name, provider=openai_provider)
        # Compatible servers know only the older name of the parameter.
        profile: Any = {"openai_chat_supports_max_completion_tokens": False}
        return OpenAIChatModel(self._name, provider=openai_provider, profile=profile)


def _settings(request: ModelRequest) -> Any:
    return {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "timeout": request.timeout,
        "request_timeout": request.timeout,
        "max_retries": 0,
    }


def _parameters(request: ModelRequest, *, structured: bool) -> Any:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    if not structured or request.schema is None:
        return ModelRequestParameters()
    output = OutputObjectDefinition(json_schema=short(request.schema.model_json_schema()), name=request.schema.__name__)
    return ModelRequestParameters(output_mode="native", output_object=output)


def _answer(response: Any) -> ModelAnswer:
    texts = [part.content for part in response.parts if part.part_kind == "text"]
    if response.finish_reason in ("content_filter", "error"):
        raise ModelError("the model returned no answer: a content filter or an error ended it", kind="Filtered")
    return ModelAnswer(
        text="".join(texts),
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        model=response.model_name or "",
        cut=response.finish_reason == "length",
    )
