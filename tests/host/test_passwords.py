"""Passwords of accounts: what is kept, what fits, and that a hash is renewed."""

import time

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret
from holdfast.host.passwords import MOST_LENGTH, Passwords

GOOD = Secret("correct horse battery")
SMALL = Passwords(rounds=1, memory_kib=1024)


def test_a_password_fits_its_own_hash_and_no_other_does() -> None:
    kept = Passwords().hash(GOOD)
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert GOOD.reveal() not in kept
    assert Passwords().check(kept, GOOD).fits
    assert not Passwords().check(kept, Secret("correct horse batterz")).fits
    assert not Passwords().check(kept, Secret("")).fits


def test_without_a_hash_or_with_a_broken_one_nothing_fits() -> None:
    assert not SMALL.check(None, GOOD).fits
    assert not SMALL.check(None, Secret("the password of nobody")).fits
    assert not SMALL.check("no hash", GOOD).fits


@pytest.mark.parametrize("length", [0, 9, MOST_LENGTH + 1])
def test_too_short_and_too_long_passwords_are_refused(length: int) -> None:
    with pytest.raises(InvalidInput, match="10 to 1,000 characters"):
        SMALL.hash(Secret("x" * length))


def test_a_hash_with_other_parameters_is_renewed_and_then_stays() -> None:
    weak = SMALL.hash(GOOD)
    now = Passwords(rounds=2, memory_kib=2048)
    checked = now.check(weak, GOOD)
    assert checked.fits
    assert checked.renewed is not None
    assert "m=2048,t=2" in checked.renewed
    assert now.check(checked.renewed, GOOD) == type(checked)(True, None)
    assert now.check(weak, Secret("wrong wrong wrong")).renewed is None


def test_one_letter_written_in_two_ways_is_one_password() -> None:
    kept = SMALL.hash(Secret("café-café-café"))
    assert SMALL.check(kept, Secret("café-café-café")).fits
    assert not SMALL.check(kept, Secret("\ud800 is no text at all")).fits


def test_an_unknown_account_costs_the_work_of_a_known_one() -> None:
    passwords = Passwords()
    kept = passwords.hash(GOOD)
    passwords.check(None, GOOD)

    def fastest(hash_: str | None) -> float:
        times = []
        for _ in range(5):
            begun = time.process_time()
            passwords.check(hash_, Secret("a wrong password"))
            times.append(time.process_time() - begun)
        return min(times)

    known, unknown = fastest(kept), fastest(None)
    assert 0.5 < known / unknown < 2
