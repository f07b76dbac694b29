"""The plain page that a person without an account sees after signing in elsewhere: what to do about it."""

import shlex
from html import escape

from starlette.responses import HTMLResponse

from holdfast.web.sign_in.accounts import Vouched


def unknown_person(person: Vouched, why: str, root: str) -> HTMLResponse:
    """Who the person is at the issuer, so that the operator can link an account to that."""
    command = f"holdfast users link-sign-in NAME {shlex.join((person.issuer, person.subject))}"
    head = (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f'<title>No account · Holdfast</title><link rel=stylesheet href="{escape(root)}/app.css">'
    )
    body = (
        f"<main class=sign-in><h1>No account here</h1><p>You are signed in at {escape(person.issuer)} as "
        f"{escape(person.name)}, but {escape(why)} Nobody was let in.</p><h2>What to do</h2><ul>"
        "<li>Open the invitation that you were sent, if you have one, and sign in from there.</li>"
        "<li>Or ask who runs this server to link your account. The command for it is "
        f"<code>{escape(command)}</code>, with your account's name here for NAME.</li></ul>"
        f'<p><a href="{escape(root)}/">Back</a></p></main></html>'
    )
    return HTMLResponse(head + body, status_code=403, headers={"Cache-Control": "no-store"})
