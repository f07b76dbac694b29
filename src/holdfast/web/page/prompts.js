// Owns prompts of one's own: a list to choose from, and a way to keep, change and remove one.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { Trouble, useLoaded } from "./panel.js";
import { api } from "./wire.js";

const pathOf = (name) => `/prompts/${encodeURIComponent(name)}`;

export default function Prompts({ page, close }) {
  const found = useLoaded(() => api("GET", "/prompts"), []);
  const [edited, setEdited] = useState(null); // {name, text, was}
  const [refused, setRefused] = useState(null);
  const box = useRef(null);
  const items = found.value?.items ?? [];
  const use = (text) => {
    close();
    page.insert(text);
  };
  const tried = (work) => async (event) => {
    event?.preventDefault();
    setRefused(null);
    try {
      await work();
      setEdited(null);
      await found.again();
    } catch (cause) {
      setRefused(cause);
    }
  };
  const save = tried(async () => {
    await api("PUT", pathOf(edited.name.trim()), { text: edited.text });
    if (edited.was && edited.was !== edited.name.trim()) await api("DELETE", pathOf(edited.was));
  });
  useEffect(() => box.current?.querySelector("button, input")?.focus(), [found.value, edited === null]);
  return html`<${Dialog} title="Prompts of your own" close=${close}>
    <div ref=${box}>
    <${Trouble} problem=${found.problem} />
    ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
    ${
      edited
        ? html`<form class="fields" onSubmit=${save}>
          <label>Name <input value=${edited.name} maxlength="100" onInput=${(event) => setEdited({ ...edited, name: event.target.value })} /></label>
          <label>Text <textarea rows="6" value=${edited.text} onInput=${(event) => setEdited({ ...edited, text: event.target.value })}></textarea></label>
          <div class="buttons"><button class="primary" disabled=${!edited.name.trim() || !edited.text.trim()}>Keep</button><button type="button" onClick=${() => setEdited(null)}>Cancel</button></div>
        </form>`
        : html`<ul class="choices" aria-label="Prompts">
            ${items.map((each) => html`<li key=${each.name} class="with-actions"><button type="button" onClick=${() => use(each.text)}><strong>${each.name}</strong><small>${each.text.slice(0, 140)}</small></button>
              <button type="button" class="quiet" aria-label=${`Change ${each.name}`} onClick=${() => setEdited({ ...each, was: each.name })}>Change</button>
              <button type="button" class="quiet" aria-label=${`Remove ${each.name}`} onClick=${tried(() => api("DELETE", pathOf(each.name)))}>Remove</button></li>`)}
          </ul>
          ${found.value && !items.length && html`<p class="muted">None is kept yet. Keep a text that you send often, and choose it here or with Ctrl+K.</p>`}
          ${
            // Not before the list, which would move it away under a finger.
            (found.value || found.problem) &&
            html`<div class="buttons"><button type="button" class="primary" onClick=${() => setEdited({ name: "", text: page.field.current?.value ?? "", was: "" })}>Keep a new one</button></div>`
          }`
    }
    </div>
  <//>`;
}
