"""How long a machine runs: a short run, always the same, in every check; a long random one in `make soak`."""

from hypothesis import HealthCheck, Phase, settings

from tests.fast_run import examples

# The machine is noisy and shared, so no example has a deadline.
BASE = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def short(number: int) -> settings:
    """Always the same examples."""
    return settings(
        BASE,
        derandomize=True,
        database=None,
        max_examples=examples(number),
        stateful_step_count=40,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )


def long(number: int) -> settings:
    """Other examples every time; a failure prints how to repeat it and is tried first next time."""
    return settings(BASE, max_examples=number, stateful_step_count=50)
