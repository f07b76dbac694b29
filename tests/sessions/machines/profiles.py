"""How long a machine runs: the same short run in every check, a long random one in `make test`."""

from hypothesis import HealthCheck, Phase, settings

# The machine is noisy and shared, so no example has a deadline.
BASE = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def short(examples: int) -> settings:
    """Always the same examples."""
    return settings(
        BASE,
        derandomize=True,
        database=None,
        max_examples=examples,
        stateful_step_count=40,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )


def long(examples: int) -> settings:
    """Other examples every time; a failure prints how to repeat it and is tried first next time."""
    return settings(BASE, max_examples=examples, stateful_step_count=50)
