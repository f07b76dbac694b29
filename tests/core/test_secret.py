"""A secret is never shown, logged, pickled or written by accident."""

import copy
import json
import logging
import pickle
import pprint
import traceback
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import Secret
from holdfast.core.secret import MASK

VALUE = "sk-very-secret-value"


@pytest.fixture
def secret() -> Secret:
    return Secret(VALUE)


def test_it_is_revealed_on_purpose_only(secret: Secret) -> None:
    assert secret.reveal() == VALUE


def test_every_way_to_text_shows_the_mask(secret: Secret) -> None:
    @dataclass
    class Holder:
        key: Secret

    ways = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r}",
        f"{secret!s:>40}",
        f"{secret:^40}",
        "%s %r" % (secret, secret),  # noqa: UP031 - one of the ways
        "{} {!r}".format(secret, secret),  # noqa: UP032
        format(secret),
        repr([secret]),
        repr({"key": secret}),
        repr(Holder(secret)),
        pprint.pformat({"key": secret}),
        ascii(secret),
    ]
    for way in ways:
        assert VALUE not in way
        assert MASK in way or way == ascii(secret)


def test_logs_and_tracebacks_show_the_mask(secret: Secret, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test")
    logger.warning("key %s %r", secret, secret, extra={"key": secret})
    assert VALUE not in caplog.text
    error = ValueError(secret)
    assert VALUE not in "".join(traceback.format_exception(error))
    assert VALUE not in str(error)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_not_pickled(secret: Secret, protocol: int) -> None:
    for value in (secret, {"key": [secret]}):
        with pytest.raises(TypeError) as refused:
            pickle.dumps(value, protocol)
        assert VALUE not in str(refused.value)


def test_it_is_not_copied_or_written_as_json(secret: Secret) -> None:
    for write in (copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as refused:
            write(secret)
        assert VALUE not in str(refused.value)
    assert VALUE not in json.dumps({"key": secret}, default=str)


def test_it_holds_its_value_in_no_dictionary(secret: Secret) -> None:
    assert not hasattr(secret, "__dict__")
    with pytest.raises(TypeError):
        vars(secret)


@given(st.text(), st.text())
def test_secrets_are_equal_by_value_and_never_to_text(one: str, other: str) -> None:
    assert (Secret(one) == Secret(other)) == (one == other)
    assert Secret(one) != one
    assert hash(Secret(one)) == hash(Secret(one))
    assert bool(Secret(one)) == bool(one)


def test_a_key_is_masked_in_a_text_when_it_is_long_enough_to_be_one() -> None:
    assert Secret("sk-12345").masked_in("wrong key sk-12345!") == f"wrong key {MASK}!"
    for placeholder in ("x", "none", "ollama", "unused"):
        text = f"x: model none of ollama is unused, {placeholder}"
        assert Secret(placeholder).masked_in(text) == text
        assert not Secret(placeholder).is_in(text)
    assert Secret("").masked_in("as it is") == "as it is"
