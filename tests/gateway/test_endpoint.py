from __future__ import annotations

import copy
import pickle

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.gateway.endpoint import PLACEHOLDER_MODEL, Endpoint, Secret, check_model_name

KEY = "sk-canary-3f9c1d7be2a64085"


def checked(url: str, key: str | None = KEY) -> Endpoint:
    return Endpoint.checked(url, key, key_variable="TAOTOKEN_API_KEY", url_source="OPENAI_BASE_URL")


@pytest.mark.parametrize(
    ("url", "base_url", "host"),
    [
        ("https://taotoken.net/api", "https://taotoken.net/api", "taotoken.net"),
        ("https://taotoken.net/api/", "https://taotoken.net/api", "taotoken.net"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("https://host", "https://host", "host"),
    ],
)
def test_a_usable_address_is_kept(url: str, base_url: str, host: str) -> None:
    endpoint = checked(url)
    assert (endpoint.base_url, endpoint.host) == (base_url, host)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("", "OPENAI_BASE_URL is empty"),
        ("  ", "OPENAI_BASE_URL is empty"),
        ("https://taotoken.net/api?utm_source=blog", "write https://taotoken.net/api"),
        ("https://taotoken.net/api/?", "write https://taotoken.net/api"),
        ("https://taotoken.net/api#top", "write https://taotoken.net/api"),
        ("https://taotoken.net/api/v1/v1", "write https://taotoken.net/api/v1"),
        ("https://taotoken.net/api/v1/v1/", "write https://taotoken.net/api/v1"),
        ("https://taotoken.net//api", "write https://taotoken.net/api"),
        ("https://taotoken.net/api/v1/chat/completions", "write https://taotoken.net/api/v1"),
        ("https://taotoken.net/api/chat/completions/chat/completions", "write https://taotoken.net/api"),
        ("https://taotoken.net/api/v1/messages", "write https://taotoken.net/api/v1"),
        (" https://taotoken.net/api\n", "write https://taotoken.net/api"),
        ("taotoken.net/api", "https://host/api"),
        ("ftp://taotoken.net", "https://host/api"),
        ("https://host:port/api", "https://host/api"),
        ("https://me:pass@taotoken.net/api", "the key goes in its variable"),
    ],
)
def test_an_address_that_cannot_work_is_refused_with_what_to_write(url: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(url)
    message = str(caught.value)
    assert message.endswith(remedy) or remedy in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (None, "is not set"),
        ("", "is empty"),
        (" \n", "is empty"),
        (KEY + "\n", "white space or a line break"),
        (f"{KEY} # production", "white space or a line break"),
        (f'"{KEY}"', "quotation marks"),
        ("$TAOTOKEN_API_KEY", "unexpanded"),
        (KEY + "键", "characters no key has"),
    ],
)
def test_a_key_that_cannot_work_is_refused_without_showing_it(key: str | None, problem: str) -> None:
    with pytest.raises(ConfigError, match="TAOTOKEN_API_KEY") as caught:
        checked("https://taotoken.net/api", key)
    assert problem in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_key_shows_its_length_and_last_four_only() -> None:
    secret = Secret(KEY)
    assert secret.hint == "26 characters, ends in 4085"
    assert KEY not in f"{secret} {secret!r} {checked('https://h')!r} {checked('https://h')}"
    assert "short" not in Secret("short").hint
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        copy.deepcopy(secret)


def test_the_key_stays_with_its_origin() -> None:
    endpoint = checked("https://taotoken.net/api")
    assert endpoint.at("https://taotoken.net/api/v1").key is endpoint.key
    with pytest.raises(ConfigError, match="only sent to the configured host"):
        endpoint.at("https://elsewhere.net/api")


@pytest.mark.parametrize("name", ["", " ", PLACEHOLDER_MODEL, f"openai/{PLACEHOLDER_MODEL}", "gpt 5"])
def test_a_name_that_is_no_model_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"models\.candidate"):
        check_model_name(name, "models.candidate")
