"""What a person puts into an editor's settings, so that it starts `holdfast acp`."""

import json
import shutil
import sys
from pathlib import Path
from typing import Literal

Editor = Literal["zed", "jetbrains", "nvim", "emacs"]


def editor_config(editor: Editor) -> str:
    """The settings, with a comment that says where they go."""
    command = shutil.which("holdfast") or str(Path(sys.argv[0]).resolve())
    quoted = json.dumps(command)
    server = {"Holdfast": {"command": command, "args": ["acp"], "env": {}}}
    if editor == "zed":
        named = {"agent_servers": {"Holdfast": {"type": "custom", **server["Holdfast"]}}}
        return f"// Zed: into settings.json (command `zed: open settings`)\n{json.dumps(named, indent=2)}\n"
    if editor == "jetbrains":
        named = {"agent_servers": server}
        return f"// JetBrains: into ~/.jetbrains/acp.json\n{json.dumps(named, indent=2)}\n"
    if editor == "nvim":
        return (
            "-- Neovim with avante.nvim: into its setup\n"
            'require("avante").setup({\n'
            '  provider = "holdfast",\n'
            "  acp_providers = {\n"
            f'    ["holdfast"] = {{ command = {quoted}, args = {{ "acp" }} }},\n'
            "  },\n"
            "})\n"
        )
    return (
        ";; Emacs with agent-shell: into init.el; M-x holdfast starts it\n"
        "(require 'agent-shell)\n"
        "(defun holdfast ()\n"
        "  (interactive)\n"
        "  (agent-shell-start\n"
        "   :config (agent-shell-make-agent-config\n"
        '            :identifier \'holdfast :mode-line-name "Holdfast" :buffer-name "Holdfast"\n'
        '            :shell-prompt "Holdfast> " :shell-prompt-regexp "Holdfast> "\n'
        "            :client-maker (lambda (buffer)\n"
        "                            (agent-shell--make-acp-client\n"
        f'                             :command {quoted} :command-params \'("acp")\n'
        "                             :context-buffer buffer)))))\n"
    )
