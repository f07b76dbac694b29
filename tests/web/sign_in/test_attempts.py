"""How often somebody may try to sign in."""

from holdfast.testing import FakeClock
from holdfast.web.sign_in.attempts import BY_CLIENT, BY_NAME, MOST_KEPT, QUIET_SECONDS, Attempts


def test_after_the_free_attempts_each_pause_is_twice_the_one_before() -> None:
    clock = FakeClock()
    attempts = Attempts(clock)
    for number in range(BY_NAME.free):
        assert attempts.begin("anna", f"192.0.2.{number}") == 0
    for number, pause in enumerate([1, 2, 4, 8, 16, 32, 60, 60]):
        client = f"198.51.100.{number}"
        assert attempts.begin("ANNA", client) == pause, "however the name is written"
        assert attempts.begin("berta", client) == 0, "another name is another matter"
        attempts.succeeded("berta", client)
        clock.advance(pause - 0.5)
        assert attempts.begin("anna", client) == 0.5
        clock.advance(0.5)
        assert attempts.begin("anna", client) == 0


def test_a_client_that_tries_many_names_must_wait_too() -> None:
    clock = FakeClock()
    attempts = Attempts(clock)
    for number in range(BY_CLIENT.free):
        assert attempts.begin(f"name {number}", f"2001:db8::{number:x}") == 0
    assert attempts.begin("one more", "2001:db8::ffff:1") == 1, "one network of IPv6 is one client"
    assert attempts.begin("one more", "2001:db8:0:1::1") == 0
    assert attempts.begin("one more", "192.0.2.1") == 0
    for _ in range(20):
        clock.advance(BY_CLIENT.longest)
        assert attempts.begin(f"another {_}", "2001:db8::1") == 0
    assert attempts.begin("the last", "2001:db8::1") == BY_CLIENT.longest


def test_a_success_clears_the_name_and_not_the_client() -> None:
    clock = FakeClock()
    attempts = Attempts(clock)
    for number in range(BY_CLIENT.free):
        assert attempts.begin(f"name {number}", "192.0.2.1") == 0
    clock.advance(1)
    assert attempts.begin("own account", "192.0.2.1") == 0
    attempts.succeeded("own account", "192.0.2.1")
    assert attempts.begin("victim", "192.0.2.1") == 1


def test_attempts_are_forgotten_after_a_quiet_time_and_few_are_kept() -> None:
    clock = FakeClock()
    attempts = Attempts(clock)
    for number in range(BY_NAME.free):
        attempts.begin("anna", f"192.0.2.{number}")
    assert attempts.begin("anna", "192.0.2.99") > 0
    clock.advance(QUIET_SECONDS + 1)
    assert attempts.begin("anna", "192.0.2.99") == 0


def test_what_is_kept_is_bounded() -> None:
    clock = FakeClock()
    attempts = Attempts(clock)
    for number in range(BY_NAME.free):
        attempts.begin("anna", f"192.0.2.{number}")
    assert attempts.begin("anna", "192.0.2.99") > 0
    for number in range(MOST_KEPT):
        assert attempts.begin(f"name {number}", f"10.0.{number >> 8}.{number & 255}") == 0
    assert attempts.begin("anna", "192.0.2.99") == 0, "the oldest makes room"
