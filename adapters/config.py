"""The user's configuration: one TOML file, environment variables over it (rules: ``specs/config.md``)."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import platformdirs
import pydantic

from ..domain.errors import OptionError
from ..domain.policy import Policy, check_ttl, make_policy
from ..domain.settings import Wrong, fault
from ..storage.stores import place
from .models.summarizers import Anthropic, OpenAI, Summarizer
from .models.windows import Limits

ENV = "FOLDLOG_CONFIG"
FILE = "config.toml"
UPSTREAMS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "chatgpt": "https://chatgpt.com/backend-api/codex",
}
"""Where requests go, without the path a client adds; ``chatgpt`` serves Codex with a ChatGPT login."""

Seconds = Annotated[float, pydantic.Field(gt=0, le=86_400, allow_inf_nan=False)]


class Asked(pydantic.BaseModel):
    """A summariser that asks a model. ``kind`` names the wire, ``key_env`` the variable that holds the key."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    kind: Literal["openai", "anthropic"]
    model: Annotated[str, pydantic.Field(min_length=1)]
    base_url: str | None = None
    key_env: str | None = None
    timeout: Seconds = 300.0
    max_tokens: Annotated[int, pydantic.Field(ge=0, lt=1 << 31)] = 0


class Config(pydantic.BaseModel):
    """What the user set; every field has a default.

    ``db``: URL of the store, None for the user's own. ``host``, ``port``: where the proxy listens, always on this
    machine. ``upstreams``: name -> address, over ``UPSTREAMS``. ``models``: pattern -> limits in tokens, over the
    built-in catalogue. ``summarizer``: ``extractive``, ``none``, ``host`` or a model to ask. ``policy``: settings of
    ``Policy``. ``fail_closed_blocking``: refuse rather than send an unmanaged request where the store cannot be used.
    ``hot_sessions_mb``: memory for sessions kept ready. ``idle_exit_s``: after so many idle seconds the process the
    hosts' plugins share ends.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    db: Annotated[str, pydantic.Field(min_length=1)] | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, pydantic.Field(ge=1, le=65_535)] = 4141
    upstreams: dict[Literal["anthropic", "openai", "chatgpt"], str] = UPSTREAMS  # type: ignore[assignment]  # as below
    models: dict[str, Limits] = {}
    summarizer: Literal["extractive", "none", "host"] | Asked = "extractive"
    policy: dict[str, Any] = {}
    fail_closed_blocking: bool = True
    hot_sessions_mb: Annotated[int, pydantic.Field(ge=16, le=1 << 20)] = 512
    idle_exit_s: Seconds = 900

    @pydantic.field_validator("host")
    @classmethod
    def _local(cls, host: str) -> str:
        """Only this machine: the proxy carries the keys of whoever reaches it."""
        try:
            here = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            here = False
        if not here:
            raise ValueError("the proxy listens on this machine only: 127.0.0.1, ::1 or localhost")
        return host

    @pydantic.field_validator("upstreams", mode="after")
    @classmethod
    def _addresses(cls, given: dict[Any, str]) -> dict[Any, str]:
        found = {**UPSTREAMS, **given}
        for name, url in found.items():
            parts = urlsplit(url)
            shown = url.rpartition("@")[2].partition("?")[0]  # no key gets into an error
            said = f"the upstream {name} is an address"
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise Wrong(f"{said} such as https://host or http://127.0.0.1:8080", shown)
            if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
                raise Wrong(f"{said} alone: no key, no query; keys come from the client", shown)
            found[name] = url.rstrip("/")
        return found

    @pydantic.field_validator("policy", mode="after")
    @classmethod
    def _policy(cls, given: dict[str, Any]) -> dict[str, Any]:
        try:
            make_policy(given)
            check_ttl(given.get("cache_ttl", "never"))
        except OptionError as error:
            said = error.message.replace(repr(error.where), repr(f"policy.{error.where}"), 1)
            raise Wrong(said, error.value) from None
        return given


ENVIRONMENT = {
    "FOLDLOG_DB": "db",
    "FOLDLOG_HOST": "host",
    "FOLDLOG_PORT": "port",
    "FOLDLOG_ANTHROPIC_UPSTREAM": "upstreams.anthropic",
    "FOLDLOG_OPENAI_UPSTREAM": "upstreams.openai",
    "FOLDLOG_CHATGPT_UPSTREAM": "upstreams.chatgpt",
    "FOLDLOG_SUMMARIZER": "summarizer",
    "FOLDLOG_HOT_SESSIONS_MB": "hot_sessions_mb",
    "FOLDLOG_IDLE_EXIT_S": "idle_exit_s",
}
"""Variables that win over the file. ``fail_closed_blocking`` has none: a project's environment may not loosen it."""


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the configuration is looked for: ``FOLDLOG_CONFIG``, else the user's configuration folder."""
    named = (os.environ if environ is None else environ).get(ENV, "")
    return place(named, ENV) if named else platformdirs.user_config_path("foldlog") / FILE


def load(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Read the configuration. A file nobody named need not exist.

    Raises ``OptionError`` that names the file or variable, the key and the value.
    """
    env = os.environ if environ is None else environ
    where = config_path(env) if path is None else Path(path)
    given = _read(where, required=path is not None or bool(env.get(ENV)))
    try:
        config = Config.model_validate(given)
    except pydantic.ValidationError as error:
        raise _refusal(error, str(where), given) from None
    for variable, key in ENVIRONMENT.items():
        value = env.get(variable, "")
        if value:
            if key == "db" and "://" not in value and value != "memory:":
                value = f"sqlite:///{value}"  # a plain path, as everywhere else
            config = _overridden(config, variable, key, value)
    return config


def summarizer(config: Config) -> Summarizer | str | None:
    """Return what ``Engine.open`` takes as its summariser. Raises ``OptionError`` for an endpoint that cannot work.

    ``host`` is for the plugins' process, which sets it up itself; elsewhere no host can be asked.
    """
    given = "extractive" if config.summarizer == "host" else config.summarizer
    if not isinstance(given, Asked):
        return None if given == "none" else given
    made = OpenAI if given.kind == "openai" else Anthropic
    own = given.model_dump(exclude_none=True, exclude={"kind"}, exclude_defaults=True)
    return made(**own)


def policy(config: Config) -> Policy | None:
    """Return the configured policy, None where nothing is set (a session then keeps its own)."""
    return make_policy(config.policy) if config.policy else None


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if required:
            raise OptionError("there is no configuration file at this place", value=str(path), where=ENV) from None
        return {}
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise OptionError(f"the configuration cannot be read: {error}", where=str(path)) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"the configuration is not TOML: {error}", where=str(path)) from None


def _overridden(config: Config, variable: str, key: str, value: str) -> Config:
    data = config.model_dump()
    head, _, member = key.partition(".")
    if member:
        data[head] = {**data[head], member: value}
    else:
        data[head] = value
    try:
        return Config.model_validate(data)
    except pydantic.ValidationError as error:
        raise _refusal(error, variable, data) from None


def _refusal(error: pydantic.ValidationError, where: str, given: Any) -> OptionError:
    found = fault(error, Config, given)
    return OptionError(found.said, value=found.value, where=where)
