// Owns the dialog that chooses which tools the model is told of: in the open conversation, or in the next one.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { Trouble, useLoaded } from "./panel.js";
import { toolsInUse } from "./shell.js";
import { api } from "./wire.js";

const ABOUT = {
  small: "five tools in few words: for models up to 4 billion parameters",
  standard: "all but those that are seldom used: for models up to 40 billion parameters",
  all: "every tool, with all that is known of it",
};

export default function Tools({ page, close }) {
  const { value, problem } = useLoaded(() => api("GET", "/status"), []);
  const [refused, setRefused] = useState(null);
  const first = useRef(null);
  useEffect(() => first.current?.focus(), []);
  const { name, reason, chosen } = toolsInUse(page);
  const choose = async (wanted) => {
    setRefused(null);
    try {
      await page.choose({ tool_profile: wanted });
      close();
    } catch (cause) {
      setRefused(cause);
    }
  };
  const usual = chosen ? "as the settings say, or by the size of the model" : `now ${name}: ${reason}`;
  return html`<${Dialog} title=${page.session ? "Tools for this conversation" : "Tools for the next conversation"} close=${close}>
    <p class="muted">Every tool that the model is told of costs tokens in each request. Those that it is not told of it can still find.</p>
    <${Trouble} problem=${problem ?? refused} />
    <ul class="choices" aria-label="Tool profiles">
      <li><button ref=${first} type="button" aria-pressed=${!chosen} onClick=${() => choose("")}><strong>The usual ones</strong><small>${usual}</small></button></li>
      ${(value?.tool_profiles ?? []).map((each) => html`<li key=${each}><button type="button" aria-pressed=${chosen && name === each} onClick=${() => choose(each)}>
        <strong>${each}</strong><small>${ABOUT[each] ?? "a profile of the settings"}</small></button></li>`)}
    </ul>
  <//>`;
}
