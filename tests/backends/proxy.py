"""A door in front of a real server, which can be made to fail: what the server itself does only by chance."""

import httpx2

from holdfast.testing.faulty_server import FaultyServer, HttpCall, Reply

KEPT = ("authorization", "x-api-key", "content-type")


def door(url: str) -> FaultyServer:
    """Passes every request on to the server at `url`, one at a time."""

    def pass_on(call: HttpCall) -> Reply:
        headers = {name: value for name, value in call.request.headers.items() if name in KEPT}
        try:
            answer = httpx2.request(
                call.method,
                f"{url}{call.request.path}",
                content=call.request.body,
                headers=headers,
                timeout=60,
            )
        except httpx2.HTTPError as error:
            return Reply({"detail": f"the server is gone: {error}"}, 502)
        return Reply(answer.content, answer.status_code)

    return FaultyServer(pass_on)
