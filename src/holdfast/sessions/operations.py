"""The named operations of the store: every change that it can be asked for, each one transaction.

An operation is a function that takes its arguments as data and gives an `Operation`. Threads hand it to
`Engine.write`, an event loop to `SessionDB.run`. The crash tests cut off each one that is listed here, before
and after its commit.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from holdfast.sessions.contract import Operation, Transaction

T = TypeVar("T")
P = ParamSpec("P")

OPERATIONS = (
    # conversations
    "begin_conversation",
    "send_message",
    "claim_conversation",
    "release_if_idle",
    "release_conversation",
    "rotate_session",
    "delete_conversation",
    "import_conversation",
    "change_conversation",
    "name_conversation",
    "branch_session",
    # sessions
    "create_session",
    "end_session",
    "append_messages",
    "mark_committed",
    # turns
    "open_turn",
    "take_next",
    "resume_turn",
    "hand_over_turn",
    "append_to_turn",
    "join_turn",
    "save_partial",
    "complete_turn",
    "complete_unless_steered",
    "end_turn",
    "record_turn",
    # the inbox
    "put_message",
    "edit_message",
    "withdraw_message",
    # asks
    "put_ask",
    "answer_ask",
    "close_ask",
    "withhold_asks",
    "settle_asks",
    # the outbox
    "enqueue_delivery",
    "claim_deliveries",
    "extend_claim",
    "free_dead_claims",
    "mark_delivered",
    "return_delivery",
    "retry_delivery",
    "drop_delivery",
    "rename_provider",
    # forgetting
    "accept_forgetting",
    "take_forgetting",
    "defer_forgetting",
    "settle_forgetting",
    "retry_forgetting",
    # schedules
    "add_schedule",
    "pause_schedule",
    "resume_schedule",
    "remove_schedule",
    "run_schedule",
    "plan_runs",
    "claim_scheduled_run",
    "mark_run_sent",
    "fail_run",
    "settle_runs",
    "settle_run_delivery",
    # what a person chose
    "choose_for_conversation",
    "put_folder",
    "rename_folder",
    "remove_folder",
    "put_own_prompt",
    "remove_own_prompt",
    # file changes
    "record_file_changes",
    "settle_file_changes",
    "mark_files_undone",
    # usage
    "record_usage",
    # chat platforms
    "receive_chat_events",
    "join_chat_events",
    "settle_chat_event",
    "pass_over_chat_event",
    "assign_chat_room",
    "put_chat_post",
    "open_chat_post",
    "plan_chat_post",
    "move_chat_part",
    "defer_chat_post",
    "settle_chat_post",
    "retry_chat_post",
    "drop_chat_post",
    "put_chat_person",
    "remove_chat_person",
    "request_pairing",
    "approve_pairing",
    # accounts
    "create_user",
    "change_user",
    "disable_user",
    "enable_user",
    "remove_user",
    "issue_user_token",
    "note_token_used",
    "revoke_user_token",
    "set_user_password",
    "change_user_password",
    "link_user_identity",
    "link_identity_by_name",
    "unlink_user_identity",
    "invite_user",
    "accept_invitation",
    "measure_storage",
    "record_audit",
    # leases
    "acquire_lease",
    "renew_lease",
    "release_lease",
)


def operation(build: Callable[P, Callable[[Transaction], T]]) -> Callable[P, Operation[T]]:
    """Name an operation after the function that builds it."""

    @wraps(build)
    def named(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
        return Operation(build.__name__, build(*args, **kwargs))

    return named
