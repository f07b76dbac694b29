// Owns the settings view: how the page looks in this browser, the model with its key, memory, tools and their
// rules, the sandbox. What the environment sets is shown as such; a key goes in and is never shown.
import { html, useEffect, useState } from "./lib/base.js";
import { appearance, change } from "./appearance.js";
import { Panel, Trouble, useLoaded } from "./panel.js";
import { api } from "./wire.js";

const GROUPS = [
  { title: "Model", keys: ["model.provider", "model.name", "model.base_url", "model.api_key", "model.context_window"], more: "model." },
  { title: "Memory", keys: ["memory.providers", "memory.review_every"], more: "memory." },
  { title: "Tools and their rules", keys: ["tools.workspace", "tools.approval", "tools.allow"], more: "tools." },
  { title: "Sandbox for commands", keys: ["tools.sandbox", "tools.sandbox_network", "tools.sandbox_readable", "tools.sandbox_writable"] },
  { title: "Limits of a turn", keys: ["limits.max_steps", "limits.max_seconds", "limits.max_cost"] },
  { title: "Other", keys: [], more: "host." },
];
const LABELS = {
  "model.provider": "Provider",
  "model.name": "Model",
  "model.base_url": "Address of the server",
  "model.api_key": "Key",
  "model.context_window": "Window in tokens",
  "memory.providers": "Memory providers",
  "memory.review_every": "Reviews",
  "tools.workspace": "Workspace",
  "tools.approval": "Approval",
  "tools.allow": "Allowed without asking",
  "tools.sandbox": "Sandbox",
  "tools.sandbox_network": "Network in the sandbox",
  "tools.sandbox_readable": "More that can be read",
  "tools.sandbox_writable": "More that can be written",
  "limits.max_steps": "Requests to the model",
  "limits.max_seconds": "Seconds",
  "limits.max_cost": "Dollars",
};
const labelOf = (key) => LABELS[key] ?? key.split(".")[1].replaceAll("_", " ");

/** Several views show the settings; each gets what is there, and sends its changes. */
export function useSettings(page) {
  const found = useLoaded(() => api("GET", "/settings"), []);
  const [drafts, setDrafts] = useState({});
  const [saved, setSaved] = useState(null);
  const [refused, setRefused] = useState(null);
  const [busy, setBusy] = useState(false);
  const save = async (changes = drafts) => {
    setBusy(true);
    setRefused(null);
    try {
      const after = await api("PATCH", "/settings", { changes });
      // What was written stays in the fields until what is stored is there.
      await found.again();
      setSaved(after);
      setDrafts({});
      await page.loadStatus();
      return after;
    } catch (cause) {
      setRefused(cause);
      return null;
    } finally {
      setBusy(false);
    }
  };
  return { found, drafts, setDrafts, saved, refused, busy, save };
}

export default function Settings({ page, close }) {
  const settings = useSettings(page);
  const { found, drafts, saved, refused, busy, save } = settings;
  const items = found.value?.items ?? [];
  const listed = new Set(GROUPS.flatMap((group) => group.keys));
  const changed = Object.keys(drafts).length;
  return html`<${Panel} title="Settings" close=${close}>
    <${Trouble} problem=${found.problem} />
    <${Appearance} page=${page} />
    <form class="settings" onSubmit=${(event) => {
      event.preventDefault();
      save();
    }}>
      ${GROUPS.map((group) => {
        const rest = group.more ? items.filter((each) => each.key.startsWith(group.more) && !listed.has(each.key)) : [];
        return html`<section key=${group.title} aria-label=${group.title}><h3>${group.title}</h3>
          ${group.keys.map((key) => items.find((each) => each.key === key)).filter(Boolean).map((each) => html`<${Field} key=${each.key} entry=${each} settings=${settings} />`)}
          ${rest.length > 0 && html`<details><summary class="muted">More</summary>${rest.map((each) => html`<${Field} key=${each.key} entry=${each} settings=${settings} />`)}</details>`}
        </section>`;
      })}
      <div class="save-bar">
        ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
        ${!changed && html`<${Outcome} saved=${saved} />`}
        <div class="buttons"><button class="primary" disabled=${!changed || busy}>${busy ? "Saving…" : changed ? `Save ${changed} ${changed === 1 ? "change" : "changes"}` : "Nothing to save"}</button>
          ${changed > 0 && html`<button type="button" onClick=${() => settings.setDrafts({})}>Undo</button>`}</div>
      </div>
    </form>
    ${found.value && html`<p class="muted"><small>They are kept in ${found.value.file}; keys in a file of their own beside it, which only its owner can read. What concerns the store, this server and chat accounts is changed there.</small></p>`}
  <//>`;
}

export function Outcome({ saved }) {
  if (!saved) return null;
  return html`<div role="status">
    ${saved.model_problem ? html`<p class="problem">The settings are saved, but the model can't be used: ${saved.model_problem}</p>` : html`<p class="good">Saved.</p>`}
    ${saved.restart.length > 0 && html`<p class="muted">From the next start of “holdfast web” on: ${saved.restart.map(labelOf).join(", ")}.</p>`}
  </div>`;
}

const HELP = {
  "tools.allow": "One rule in each line, KIND:PATTERN, such as “command:git status *” or “write:/home/me/notes/*”. KIND is command, read, write, fetch, or the name of a tool; * stands for anything. What can't be undone is asked about each time.",
  "tools.approval": "It counts for what no rule allows: commands, files outside the workspace, addresses.",
};
const linesOf = (text) => text.split("\n").map((each) => each.trim()).filter(Boolean);

/** Known names to tick, and a line for each that is not known; without known ones only the lines. */
function List({ id, entry, value, disabled, set }) {
  const now = value === entry.value ? entry.items : JSON.parse(value);
  const [written, setWritten] = useState(null); // what is typed keeps its empty lines
  useEffect(() => setWritten(null), [entry.value]);
  const others = now.filter((each) => !entry.choices.includes(each));
  const put = (list) => set(JSON.stringify(list) === JSON.stringify(entry.items) ? entry.value : JSON.stringify(list));
  const tick = (name) => put(now.includes(name) ? now.filter((each) => each !== name) : [...now, name]);
  const write = (event) => {
    setWritten(event.target.value);
    put([...now.filter((each) => entry.choices.includes(each)), ...linesOf(event.target.value)]);
  };
  const shown = written !== null && linesOf(written).join("\n") === others.join("\n") ? written : others.join("\n");
  const area = html`<textarea id=${id} aria-label=${entry.choices.length ? `Other ${labelOf(entry.key).toLowerCase()}` : null} rows=${Math.min(8, Math.max(2, others.length + 1))} disabled=${disabled} aria-describedby=${`${id}-about`} placeholder="one in each line" value=${shown} onInput=${write}></textarea>`;
  if (!entry.choices.length) return area;
  return html`<div role="group" aria-label=${labelOf(entry.key)} class="ticks">${entry.choices.map((each) => html`<label class="check"><input type="checkbox" disabled=${disabled} checked=${now.includes(each)} onChange=${() => tick(each)} /> ${each}</label>`)}</div>
    <details open=${others.length > 0}><summary class="muted">Others, as module:Class</summary>${area}</details>`;
}

export function Field({ entry, settings }) {
  const { drafts, setDrafts } = settings;
  const value = drafts[entry.key] ?? entry.value;
  const id = `setting-${entry.key}`;
  const set = (text) => {
    const { [entry.key]: _, ...others } = drafts;
    setDrafts(text === entry.value && entry.kind !== "key" ? others : { ...drafts, [entry.key]: text });
  };
  const fixed = !entry.changeable;
  const usual = { id, disabled: fixed, onInput: (event) => set(event.target.value), "aria-describedby": `${id}-about` };
  return html`<div class="setting">
    ${entry.kind === "list" && entry.choices.length ? html`<b>${labelOf(entry.key)}</b>` : html`<label for=${id}>${labelOf(entry.key)}</label>`}
    ${
      entry.kind === "choice" || entry.kind === "yes or no"
        ? html`<select ...${usual} value=${value}>${entry.choices.map((each) => html`<option value=${each} selected=${each === value}>${CHOICES[each] ?? each}</option>`)}</select>`
        : entry.kind === "list"
          ? html`<${List} id=${id} entry=${entry} value=${value} disabled=${fixed} set=${set} />`
          : entry.kind === "key"
          ? html`<input ...${usual} type="password" autocomplete="off" placeholder=${entry.is_set ? "a key is kept; write a new one to replace it" : "no key"} value=${drafts[entry.key] ?? ""} />`
          : html`<input ...${usual} value=${value} placeholder=${entry.source === "default" && !value ? "not set" : ""} />`
    }
    <small id=${`${id}-about`}>${entry.description}${HELP[entry.key] && html`<br />${HELP[entry.key]}`}${fixed && html`<br /><em>${entry.source === "environment" ? `Set by the environment variable ${entry.variable}.` : "Changed in the settings file."}</em>`}</small>
  </div>`;
}

const CHOICES = { "": "found by itself", true: "yes", false: "no", ask: "ask me", "never-ask": "allow it without asking", "always-refuse": "refuse it without asking", auto: "found by itself", off: "none" };

function Appearance({ page }) {
  const [now, setNow] = useState(appearance());
  const [problem, setProblem] = useState("");
  const set = (what) => setNow(change(what));
  const notify = async (event) => {
    const wanted = event.target.checked;
    const given = wanted && (await page.notifications(true));
    if (!wanted) page.notifications(false);
    set({ notify: given });
    setProblem(wanted && !given ? "The browser does not allow it. Its settings for this page can change that." : "");
  };
  const choice = (name, label, offered) => html`<div class="setting"><label for=${`look-${name}`}>${label}</label>
    <select id=${`look-${name}`} value=${now[name]} onChange=${(event) => set({ [name]: event.target.value })}>
      ${offered.map(([value, words]) => html`<option value=${value} selected=${value === now[name]}>${words}</option>`)}</select></div>`;
  return html`<section aria-label="Appearance"><h3>Appearance, in this browser</h3>
    ${choice("theme", "Colours", [["system", "as the system"], ["light", "light"], ["dark", "dark"]])}
    ${choice("size", "Text", [["small", "small"], ["normal", "normal"], ["large", "large"]])}
    <label class="check"><input type="checkbox" checked=${now.notify} onChange=${notify} /> Notify me when something needs me</label>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  </section>`;
}
