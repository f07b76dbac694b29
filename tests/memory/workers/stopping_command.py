"""The `holdfast` command, which stops when it calls, or returns from, a given function: to be killed there.

Arguments: the qualified name of the function, "call" or "return", and the arguments of the command. Having
come there it says "stopped" on stdout and waits. It runs as with the extra `embeddings` left out.
"""

import sys
import threading
from types import FrameType

from holdfast.cli.main import main


def stop_at(name: str, moment: str) -> None:
    """Stop whichever thread comes there."""

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == moment and frame.f_code.co_qualname == name:
            sys.setprofile(None)
            sys.stdout.write("stopped\n")
            sys.stdout.flush()
            threading.Event().wait()

    threading.setprofile(look)
    sys.setprofile(look)


if __name__ == "__main__":
    sys.modules["onnxruntime"] = None  # type: ignore[assignment]  # as if it was not installed
    _, function, when, *sys.argv[1:] = sys.argv
    if function:
        stop_at(function, when)
    main()
