"""What a person puts into an editor's settings, so that it starts `holdfast acp`."""

import json
import shutil
import sys
from pathlib import Path
from typing import Literal

Editor = Literal["zed", "jetbrains", "nvim", "emacs"]

WHERE: dict[Editor, str] = {
    "zed": "Zed: put this into settings.json (command `zed: open settings`).",
    "jetbrains": "JetBrains: put this into ~/.jetbrains/acp.json (AI Chat, Add Custom Agent).",
    "nvim": "Neovim with avante.nvim: put this into its setup.",
    "emacs": "Emacs with agent-shell: put this into init.el; M-x agent-shell offers it.",
}
"""Where the settings of an editor are."""
AVANTE = """require("avante").setup({
  provider = "holdfast",
  acp_providers = {
    ["holdfast"] = { command = %s, args = { "acp" } },
  },
})
"""
AGENT_SHELL = """(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier 'holdfast
    :mode-line-name "Holdfast"
    :buffer-name "Holdfast"
    :shell-prompt "Holdfast> "
    :shell-prompt-regexp "Holdfast> "
    :client-maker (lambda (buffer)
                    (acp-make-client
                     :command %s
                     :command-params '("acp")
                     :context-buffer buffer)))))
"""


def editor_config(editor: Editor) -> str:
    """The settings for an editor, with the path of this very program."""
    command = shutil.which("holdfast") or str(Path(sys.argv[0]).resolve())
    server: dict[str, object] = {"command": command, "args": ["acp"], "env": {}}
    if editor == "zed":
        server = {"type": "custom", **server}
    if editor in ("zed", "jetbrains"):
        return json.dumps({"agent_servers": {"Holdfast": server}}, indent=2) + "\n"
    # A string of JSON is one of Lua and of Emacs Lisp too.
    return (AVANTE if editor == "nvim" else AGENT_SHELL) % json.dumps(command)
