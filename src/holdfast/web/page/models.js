// Owns the dialog that chooses a model: for the open conversation or the next one, or as the usual one for all.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { Trouble, count, useLoaded } from "./panel.js";
import { api } from "./wire.js";

const WINDOW = (tokens) => (tokens >= 1000 ? `${count(Math.round(tokens / 1000))}k tokens` : `${count(tokens)} tokens`);

/** What a model can, in a few words; nothing is said of what its server does not tell. */
export function abilities(model) {
  const words = [];
  if (model.context_window) words.push(WINDOW(model.context_window));
  if (model.calls_tools !== null) words.push(model.calls_tools ? "tools" : "no tools");
  if (model.sees_pictures !== null) words.push(model.sees_pictures ? "pictures" : "no pictures");
  if (model.price_input !== null && model.price_output !== null)
    words.push(`$${model.price_input} read, $${model.price_output} written per million tokens`);
  return words.join(" · ");
}

export default function Models({ page, close }) {
  const { value, problem } = useLoaded(() => api("GET", "/models"), []);
  const [words, setWords] = useState("");
  const [usual, setUsual] = useState(false);
  const [refused, setRefused] = useState(null);
  const [busy, setBusy] = useState("");
  const [entered, setEntered] = useState(false);
  const field = useRef(null);
  useEffect(() => field.current?.focus(), []);
  const all = value?.details ?? [];
  const shown = all.filter((each) => each.name.toLowerCase().includes(words.trim().toLowerCase())).slice(0, 200);
  const chosen = page.chosen.model;
  const choose = async (name) => {
    setBusy(name);
    setRefused(null);
    try {
      if (usual && name) {
        await api("PUT", "/models/current", { name });
        await page.choose({ model: "" });
        await page.loadStatus();
      } else await page.choose({ model: name });
      close();
    } catch (cause) {
      setRefused(cause);
      setBusy("");
    }
  };
  const enter = () => {
    const name = shown.length === 1 ? shown[0].name : words.trim() || shown[0]?.name;
    if (name && !busy) choose(name);
  };
  // Letters that were entered before the list has come may be the beginning of a name in it. Without a list they stay.
  useEffect(() => {
    if (entered && value && !value.problem) enter();
    setEntered(false);
  }, [value, problem]);
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const buttons = [...event.currentTarget.querySelectorAll(".choices button")];
    buttons[Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(document.activeElement) + step))]?.focus();
  };
  return html`<${Dialog} title=${page.session ? "Model for this conversation" : "Model for the next conversation"} close=${close} onKeyDown=${onKeyDown}>
    <input ref=${field} type="search" class="wide" aria-label="Find a model, or write its name" placeholder="Find a model, or write its name" value=${words}
      onInput=${(event) => setWords(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && (value || problem ? enter() : setEntered(true))} />
    <${Trouble} problem=${problem} />
    ${value?.problem && html`<p class="problem" role="status">The list of models can't be had: ${value.problem}. A name can be written all the same.</p>`}
    ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
    <ul class="choices" aria-label="Models">
      <li><button type="button" aria-pressed=${!chosen} disabled=${Boolean(busy)} onClick=${() => choose("")}>
        <strong>The usual model${page.model ? `: ${page.model.name}` : ""}</strong><small>as the settings of this server say</small></button></li>
      ${shown.map((each) => html`<li key=${each.name}><button type="button" aria-pressed=${chosen === each.name} disabled=${Boolean(busy)} onClick=${() => choose(each.name)}>
        <strong>${each.name}</strong><small>${busy === each.name ? "opening…" : abilities(each)}</small></button></li>`)}
      ${words.trim() && !all.some((each) => each.name === words.trim()) && html`<li><button type="button" disabled=${Boolean(busy)} onClick=${() => choose(words.trim())}><strong>${words.trim()}</strong><small>by this name, or PROVIDER:NAME</small></button></li>`}
    </ul>
    <label class="check"><input type="checkbox" checked=${usual} onChange=${() => setUsual(!usual)} /> Make it the usual model of this server, until it is started again</label>
  <//>`;
}
