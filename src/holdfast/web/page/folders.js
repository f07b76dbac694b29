// Owns the dialog of the folders of the list: renaming them, saying where they work, removing them.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { Trouble, useLoaded } from "./panel.js";
import { api } from "./wire.js";

const pathOf = (name) => `/folders/${encodeURIComponent(name)}`;
const howMany = (count) => (count === 1 ? "1 conversation" : `${count} conversations`);

export default function Folders({ page, close }) {
  const found = useLoaded(() => api("GET", "/folders"), []);
  const [edited, setEdited] = useState(null); // {was, name, workspace, usual}
  const [leaving, setLeaving] = useState(""); // the one that a person is asked about
  const [refused, setRefused] = useState(null);
  const box = useRef(null);
  const items = found.value?.items ?? [];
  const tried = (work) => async (event) => {
    event?.preventDefault();
    setRefused(null);
    try {
      await work();
      setEdited(null);
      setLeaving("");
      await found.again();
      await page.list.loadFolders();
    } catch (cause) {
      setRefused(cause);
    }
  };
  const change = tried(async () => {
    const name = edited.name.trim();
    if (edited.workspace.trim() !== edited.usual) await api("PUT", pathOf(edited.was), { workspace: edited.workspace.trim() });
    if (name === edited.was) return;
    await api("PATCH", pathOf(edited.was), { name });
    page.folderMoved(edited.was, name);
  });
  const remove = (name) => tried(async () => {
    await api("DELETE", pathOf(name));
    page.folderMoved(name, "");
  });
  useEffect(() => box.current?.querySelector("input, button")?.focus(), [found.value, edited === null]);
  return html`<${Dialog} title="Folders of the list" close=${close}>
    <div ref=${box}>
    <${Trouble} problem=${found.problem} />
    ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
    ${
      edited
        ? html`<form class="fields" onSubmit=${change}>
          <label>Name <input value=${edited.name} maxlength="100" onInput=${(event) => setEdited({ ...edited, name: event.target.value })} /></label>
          <label>New conversations work in <input value=${edited.workspace} placeholder="the usual workspace" onInput=${(event) => setEdited({ ...edited, workspace: event.target.value })} /></label>
          <div class="buttons"><button class="primary" disabled=${!edited.name.trim()}>Save</button><button type="button" onClick=${() => setEdited(null)}>Cancel</button></div>
        </form>`
        : html`<ul class="choices" aria-label="Folders">
          ${items.map((each) => html`<li key=${each.name} class="with-actions">
            <button type="button" onClick=${() => (close(), page.list.showFolder(each.name))}><strong>${each.name}</strong><small>${howMany(each.conversations)}${each.workspace ? ` · ${each.workspace}` : ""}</small></button>
            <button type="button" class="quiet" aria-label=${`Change ${each.name}`} onClick=${() => setEdited({ was: each.name, name: each.name, workspace: each.workspace, usual: each.workspace })}>Change</button>
            <button type="button" class="quiet" aria-label=${`Remove ${each.name}`} onClick=${() => setLeaving(each.name)}>Remove</button></li>`)}
        </ul>
        ${leaving && html`<div class="sure" role="group" aria-label="Are you sure?"><p>The folder “${leaving}” goes. Its conversations stay, in no folder.</p>
          <div class="buttons"><button type="button" onClick=${remove(leaving)}>Remove the folder</button><button type="button" onClick=${() => setLeaving("")}>Keep</button></div></div>`}
        ${found.value && !items.length && html`<p class="muted">There is none yet. “Workspace and folder…” in the menu of a conversation makes one.</p>`}`
    }
    </div>
  <//>`;
}
