"""`FullEditor`: an editor that offers its files and its terminals, with buffers that are not saved."""

import asyncio
import os
from pathlib import Path

from acp import RequestError, schema

from tests.acp.editor_client import EditorClient

OFFERS = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
)


class FullEditor(EditorClient):
    """Keeps every request about files and terminals; terminals are real processes."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers: dict[str, str] = {}
        self.requests: list[str] = []
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.outputs: dict[str, str] = {}
        self._pipes: dict[str, asyncio.ReadTransport] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def read_text_file(self, session_id: str, path: str, **_: object) -> schema.ReadTextFileResponse:
        assert session_id
        self.requests.append(f"read {Path(path).name}")
        if path in self.buffers:
            return schema.ReadTextFileResponse(content=self.buffers[path])
        try:
            return schema.ReadTextFileResponse(content=Path(path).read_text())  # noqa: ASYNC240
        except OSError as cause:
            raise RequestError(-32002, f"no such file: {path}") from cause

    async def write_text_file(
        self, session_id: str, path: str, content: str, **_: object
    ) -> schema.WriteTextFileResponse:
        assert session_id
        self.requests.append(f"write {Path(path).name}")
        self.buffers.pop(path, None)
        Path(path).write_text(content)  # noqa: ASYNC240
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[schema.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_: object,
    ) -> schema.CreateTerminalResponse:
        assert session_id
        assert output_byte_limit
        name = f"term-{len(self.processes) + 1}"
        self.requests.append(f"terminal {(args or [''])[-1]}")
        # A pipe of our own: what the command leaves running may keep it open, and this end can be closed.
        ours, theirs = os.pipe()
        self.processes[name] = await asyncio.create_subprocess_exec(
            command,
            *(args or []),
            env={each.name: each.value for each in env or []} | {"EDITORS_API_KEY": "secret"},
            cwd=cwd,
            stdout=theirs,
            stderr=asyncio.subprocess.STDOUT,
        )
        os.close(theirs)
        output = asyncio.StreamReader()
        self._pipes[name], _protocol = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), os.fdopen(ours, "rb", 0)
        )
        self._reading[name] = asyncio.create_task(self._read(name, output))
        return schema.CreateTerminalResponse(terminal_id=name)

    async def _read(self, name: str, output: asyncio.StreamReader) -> None:
        while data := await output.read(1000):
            self.outputs[name] = self.outputs.get(name, "") + data.decode()
            async with self._changed:
                self._changed.notify_all()

    async def terminal_output(
        self, session_id: str, terminal_id: str, **_: object
    ) -> schema.TerminalOutputResponse:
        assert session_id
        return schema.TerminalOutputResponse(output=self.outputs.get(terminal_id, ""), truncated=False)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: object
    ) -> schema.WaitForTerminalExitResponse:
        assert session_id
        code = await self.processes[terminal_id].wait()
        await self._reading[terminal_id]
        signal = f"signal {-code}" if code < 0 else None
        return schema.WaitForTerminalExitResponse(exit_code=None if code < 0 else code, signal=signal)

    async def kill_terminal(
        self, session_id: str, terminal_id: str, **_: object
    ) -> schema.KillTerminalResponse:
        assert session_id
        self.requests.append(f"kill {terminal_id}")
        self.processes[terminal_id].kill()
        return schema.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **_: object
    ) -> schema.ReleaseTerminalResponse:
        assert session_id
        self.requests.append(f"release {terminal_id}")
        self._pipes[terminal_id].close()
        return schema.ReleaseTerminalResponse()
