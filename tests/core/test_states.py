"""The state machines are tables: every state is named, and what has no way out is final."""

import pytest

from holdfast.core.errors import IllegalTransition
from holdfast.core.states import DELIVERY, INBOX, MACHINES, RUNNER, TURN, StateMachine


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_state_is_reached_from_the_start(machine: StateMachine) -> None:
    reached, frontier = {machine.start}, {machine.start}
    while frontier:
        frontier = {
            target
            for (source, _), target in machine.moves.items()
            if source in frontier and target not in reached
        }
        reached |= frontier
    assert reached == set(machine.states)
    assert machine.states[0] == machine.start
    assert len(set(machine.states)) == len(machine.states)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_from_every_state_there_is_a_way_to_an_end(machine: StateMachine) -> None:
    can_end = set(machine.final)
    for _ in machine.states:
        can_end |= {source for (source, _), target in machine.moves.items() if target in can_end}
    assert can_end == set(machine.states)


def test_the_final_states_are_the_ones_without_a_way_out() -> None:
    assert set(TURN.final) == {"completed", "interrupted", "failed"}
    assert set(INBOX.final) == {"taken", "withdrawn"}
    assert set(DELIVERY.final) == {"delivered", "dropped"}
    assert set(RUNNER.final) == {"closed", "deleted"}


def test_names_of_machines_do_not_repeat() -> None:
    assert len({machine.name for machine in MACHINES}) == len(MACHINES)


def test_an_event_that_the_table_does_not_have_is_an_error_with_a_name() -> None:
    assert RUNNER.after("idle", "call") == "claiming"
    assert RUNNER.after("serving", "close") == "closing"
    assert RUNNER.after("idle", "close") == "closed", "a row of its own counts first"
    for state, event in (("idle", "release"), ("closed", "call"), ("deleted", "close"), ("nowhere", "call")):
        with pytest.raises(IllegalTransition, match=event) as refused:
            RUNNER.after(state, event)
        assert (refused.value.machine, refused.value.state, refused.value.event) == ("runner", state, event)
