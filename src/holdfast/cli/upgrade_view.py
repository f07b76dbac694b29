"""The plan of a store's upgrade in words, for `holdfast store upgrade`."""

from collections.abc import Iterator

from holdfast.sessions.upgrading import PlannedStep, UpgradePlan

TRANSACTION = {
    "postgres": "All of it is one transaction: a lock is held until the last step is done.",
    "sqlite": "All of it is one transaction: other processes read meanwhile, and wait with writing.",
}


def plan_lines(plan: UpgradePlan, *, is_done: bool) -> Iterator[str]:
    """What would be run, or with `is_done` what was."""
    yield f"{plan.location}: schema {plan.found.applied or 'none yet'}; this program knows {plan.program}"
    if plan.connected:
        shown = ", ".join(f"{count} of {name!r}" for name, count in plan.connected.items())
        yield f"connected to this database now: {shown}"
    if not plan.steps:
        yield from _nothing_to_do(plan)
        return
    yield "these steps were run:" if is_done else "these steps would be run:"
    for planned in plan.steps:
        yield from _step_lines(planned)
    if not is_done:
        yield TRANSACTION[plan.engine]
    yield _older_programs(plan)
    if plan.later:
        yield "left for a second `holdfast store upgrade`, when every program is of this version:"
        for planned in plan.later:
            yield from _step_lines(planned)


def _nothing_to_do(plan: UpgradePlan) -> Iterator[str]:
    if plan.found_number > int(plan.program.split(".", maxsplit=1)[0]):
        yield (
            f"The store is newer than this program, and serves programs from schema {plan.serves:04d} on, "
            "so this one may use it. There is nothing to do."
        )
    else:
        yield "The store is up to date. There is nothing to do."


def _step_lines(planned: PlannedStep) -> Iterator[str]:
    step = planned.step
    yield f"  {step.name} {step.title}"
    for effect in planned.effects:
        yield f"    {'LONG: ' if effect.is_long else ''}{effect.what}"


def _older_programs(plan: UpgradePlan) -> str:
    if plan.found.applied is None:
        return "The store is new; nothing uses it yet."
    if plan.is_rolling:
        return (
            f"Programs of schema {plan.serves:04d} and later may go on meanwhile, and be started afterwards: "
            "update one node after the other."
        )
    return (
        f"Afterwards the store serves programs from schema {plan.serves:04d} on. Stop every program that "
        f"knows only schema {plan.found_number:04d} first; it would refuse to start on this store later."
    )
