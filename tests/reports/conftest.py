from __future__ import annotations

from collections.abc import Iterator

import pytest

import foldlog
from foldlog.adapters.config import Config
from support.proxy import Provider, Proxy, serving


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.close()


@pytest.fixture
def config(provider: Provider) -> Config:
    return Config(upstreams={"anthropic": provider.url, "openai": provider.url, "chatgpt": provider.url})


@pytest.fixture
def proxy(config: Config) -> Iterator[Proxy]:
    with serving(config, lambda: foldlog.Engine.open("memory:", summarizer=None)) as found:
        yield found
