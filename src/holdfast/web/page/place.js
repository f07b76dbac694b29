// Owns the dialog that says where a conversation works and in which folder of the list it lies.
import { html, useEffect, useState } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { nameOf } from "./list.js";
import { Trouble, useLoaded } from "./panel.js";
import { api } from "./wire.js";

/** `listed`: a conversation of the list that is not the open one. */
export default function Place({ page, listed = null, close }) {
  const found = useLoaded(() => api("GET", "/folders"), []);
  const status = useLoaded(() => api("GET", "/status"), []);
  const [workspace, setWorkspace] = useState(page.chosenFor(listed).workspace);
  const [folder, setFolder] = useState(page.chosenFor(listed).folder);
  const [ofFolder, setOfFolder] = useState(false);
  const [refused, setRefused] = useState(null);
  const folders = found.value?.items ?? [];
  const known = folders.find((each) => each.name === folder.trim());
  useEffect(() => {
    // A new conversation works where its folder does, unless something else is written here.
    if (known?.workspace && !page.session && !listed && !workspace) setWorkspace(known.workspace);
  }, [known?.name]);
  const save = async (event) => {
    event.preventDefault();
    try {
      if (ofFolder && folder.trim())
        await api("PUT", `/folders/${encodeURIComponent(folder.trim())}`, { workspace: workspace.trim() });
      const change = { workspace: workspace.trim(), folder: folder.trim() };
      if (listed) await page.list.patch(listed, change);
      else await page.choose(change);
      page.list.loadFolders();
      close();
    } catch (cause) {
      setRefused(cause);
    }
  };
  const title = listed ? `Where “${nameOf(listed)}” works` : page.session ? "Where this conversation works" : "Where the next conversation works";
  return html`<${Dialog} title=${title} close=${close}>
    <form class="fields" onSubmit=${save}>
      <${Trouble} problem=${found.problem} />
      <label>Workspace: the folder that tools work in, by its whole path
        <input value=${workspace} placeholder=${status.value?.workspace ?? "the usual workspace"} onInput=${(event) => setWorkspace(event.target.value)} /></label>
      <small>Empty: the usual one${status.value ? `, ${status.value.workspace}` : ""}. It counts from the next turn on.</small>
      <label>Folder of the list
        <input list="folder-names" value=${folder} placeholder="none" maxlength="100" onInput=${(event) => setFolder(event.target.value)} /></label>
      <datalist id="folder-names">${folders.map((each) => html`<option value=${each.name}></option>`)}</datalist>
      ${folder.trim() && html`<label class="check"><input type="checkbox" checked=${ofFolder} onChange=${() => setOfFolder(!ofFolder)} /> New conversations in “${folder.trim()}” work in this workspace too</label>`}
      ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
      <div class="buttons"><button class="primary">Save</button><button type="button" onClick=${close}>Cancel</button></div>
    </form>
  <//>`;
}
