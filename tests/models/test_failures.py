"""Every way a server refuses has a name, and none of them shows the key."""

import traceback
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import (
    AnswerEmpty,
    ContentRejected,
    ContextTooLong,
    KeyForbidden,
    KeyRejected,
    ModelBusy,
    ModelFailure,
    ModelUnknown,
    ModelUnreachable,
    NoCredit,
    RequestRejected,
    Retryable,
    StreamBroken,
)
from holdfast.core.secret import Secret
from holdfast.models.failures import model_failure, read_server_error, retry_after_seconds
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.testing import HttpRefusal
from holdfast.testing.scripted_server import ScriptedServer
from tests.models.model_fixtures import KEY, answer, collect, with_server

NOW = 1_700_000_000.0


def error(message: str = "server's words", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"error": {"message": message, **fields}}


REFUSALS: list[tuple[str, int | None, object, type[ModelFailure]]] = [
    ("a bad key", 401, error(code="invalid_api_key"), KeyRejected),
    ("a forbidden key", 403, error(type="permission_error"), KeyForbidden),
    ("a bad key in a stream", None, error(type="authentication_error"), KeyRejected),
    ("no credit", 402, error(code=402), NoCredit),
    ("a used-up quota", 429, error(code="insufficient_quota", type="insufficient_quota"), NoCredit),
    ("Anthropic's billing", 400, error(type="billing_error"), NoCredit),
    ("OpenAI's unknown model", 404, error(code="model_not_found"), ModelUnknown),
    ("Ollama's unknown model", 404, error(type="api_error", code=None), ModelUnknown),
    ("vLLM's unknown model", 404, {"object": "error", "message": "no such model", "code": 404}, ModelUnknown),
    ("a model that is bad input", 400, error(code="model_not_found"), ModelUnknown),
    ("a wrong path", 404, {"detail": "Not Found"}, RequestRejected),
    ("a wrong host", 404, "<html>nothing here</html>", RequestRejected),
    ("OpenAI's window", 400, error(code="context_length_exceeded"), ContextTooLong),
    ("llama.cpp's window", 400, error(type="exceed_context_size_error", code=400), ContextTooLong),
    (
        "Anthropic's window",
        400,
        error("prompt is too long: 9 tokens > 8 maximum", type="invalid_request_error"),
        ContextTooLong,
    ),
    (
        "vLLM's window",
        400,
        error("This model's maximum context length is 8 tokens.", type="BadRequestError", code=400),
        ContextTooLong,
    ),
    ("a window in a stream", None, error("maximum context length is 8", code=400), ContextTooLong),
    ("a request too large", 413, error(type="request_too_large"), ContextTooLong),
    ("a bad request", 400, error(type="invalid_request_error"), ContentRejected),
    ("an unprocessable one", 422, {"detail": [{"msg": "extra field"}]}, ContentRejected),
    ("a moderator", 403, error(code=403, metadata={"reasons": ["violence"]}), ContentRejected),
    ("a bad request in a stream", None, error(type="invalid_request_error"), ContentRejected),
    ("too many requests", 429, error(code="rate_limit_exceeded"), ModelBusy),
    ("an overload", 529, error(type="overloaded_error"), ModelBusy),
    ("an overload in a stream", None, error(type="overloaded_error"), ModelBusy),
    ("a timeout", 408, "", ModelUnreachable),
    ("a fault", 500, error(type="server_error"), ModelUnreachable),
    ("a loading model", 503, error("Loading model", type="unavailable_error", code=503), ModelUnreachable),
    ("a gateway's page", 502, "<html>bad gateway</html>", ModelUnreachable),
    ("an unnamed fault in a stream", None, error(), ModelUnreachable),
]


@pytest.mark.parametrize(
    ("status", "body", "expected"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_a_refusal_has_a_name(status: int | None, body: object, expected: type[ModelFailure]) -> None:
    named = model_failure("m", read_server_error(status, body, {}, now=NOW, key=None))
    assert type(named) is expected
    assert "m" in str(named)


def test_only_what_may_pass_can_be_tried_again() -> None:
    for _, status, body, expected in REFUSALS:
        named = model_failure("m", read_server_error(status, body, {}, now=NOW, key=None))
        assert isinstance(named, Retryable) == issubclass(expected, ModelUnreachable)


def test_a_fault_within_an_answer_says_that_part_of_it_came() -> None:
    said = read_server_error(None, error("gone", code=502), {}, now=NOW, key=None)
    assert type(model_failure("m", said, began=True)) is StreamBroken


def test_the_words_of_the_server_behind_a_router_are_shown() -> None:
    body = error("Provider returned error", code=400, metadata={"raw": "temperature must be 1"})
    named = model_failure("m", read_server_error(400, body, {}, now=NOW, key=None))
    assert "temperature must be 1" in str(named)


def test_a_web_page_is_not_quoted_and_a_long_text_is_cut() -> None:
    page = model_failure("m", read_server_error(502, "<html>" + "x" * 999, {}, now=NOW, key=None))
    assert str(page) == "m did not answer: HTTP 502"
    long = model_failure("m", read_server_error(500, error("y" * 9999), {}, now=NOW, key=None))
    assert len(str(long)) < 700


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Tue, 14 Nov 99999 22:00:00 GMT"}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(
    headers: Mapping[str, str], expected: float | None
) -> None:
    assert retry_after_seconds(headers, NOW) == expected


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["error", "code", "type", "message", "metadata", "raw"]), inner)
    ),
)


@given(
    st.none() | st.integers(400, 599),
    json_values,
    st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text()),
)
def test_whatever_a_server_says_becomes_an_error_with_a_name(
    status: int | None, body: object, headers: dict[str, str]
) -> None:
    assert isinstance(
        model_failure("m", read_server_error(status, body, headers, now=NOW, key=None)), ModelFailure
    )


def test_the_key_is_masked_in_the_servers_words() -> None:
    said = read_server_error(401, error(f"Incorrect key {KEY}."), {}, now=NOW, key=Secret(KEY))
    assert KEY not in str(model_failure("m", said))
    assert "••••••" in str(model_failure("m", said))


def test_a_key_that_is_only_a_placeholder_masks_nothing() -> None:
    said = read_server_error(400, error("the max of x is exceeded"), {}, now=NOW, key=Secret("x"))
    assert "the max of x is exceeded" in str(model_failure("m", said))


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (HttpRefusal(401, {"message": f"bad key {KEY}", "code": "invalid_api_key"}), KeyRejected),
        (HttpRefusal(429, {"message": KEY}, {"Retry-After": "3"}), ModelBusy),
        (HttpRefusal(500, {"message": KEY}), ModelUnreachable),
        (HttpRefusal(400, {"message": KEY, "code": "context_length_exceeded"}), ContextTooLong),
        (HttpRefusal(400, {"message": f"oops: {KEY}"}), ContentRejected),
        ("", AnswerEmpty),
    ],
)
def test_over_http_a_refusal_has_its_name_and_its_traceback_no_key(
    refusal: Any,  # noqa: ANN401 - an entry of a script
    expected: type[ModelFailure],
) -> None:
    with pytest.raises(expected) as raised:
        answer([refusal])
    assert type(raised.value) is expected
    assert KEY not in "".join(traceback.format_exception(raised.value))


def test_the_time_a_server_asks_for_comes_with_the_error() -> None:
    with pytest.raises(ModelBusy) as raised:
        answer([HttpRefusal(429, {}, {"Retry-After": "3"})])
    assert raised.value.retry_after == 3


def test_a_refused_request_is_sent_once() -> None:
    async def ask(model: OpenAICompatible, server: ScriptedServer) -> int:
        with pytest.raises(ModelBusy):
            await collect(model)
        return len(server.requests)

    assert with_server([ModelBusy("m", "slow down", 1)] * 3, ask) == 1
