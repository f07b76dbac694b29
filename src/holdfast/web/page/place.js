// Owns the dialog that says where a conversation works and in which folder of the list it lies.
import { html, useEffect, useState } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { Trouble, useLoaded } from "./panel.js";
import { api } from "./wire.js";

export default function Place({ page, close }) {
  const found = useLoaded(() => api("GET", "/folders"), []);
  const status = useLoaded(() => api("GET", "/status"), []);
  const [workspace, setWorkspace] = useState(page.chosen.workspace);
  const [folder, setFolder] = useState(page.chosen.folder);
  const [ofFolder, setOfFolder] = useState(false);
  const [refused, setRefused] = useState(null);
  const folders = found.value?.items ?? [];
  const known = folders.find((each) => each.name === folder.trim());
  useEffect(() => {
    // A new conversation works where its folder does, unless something else is written here.
    if (known?.workspace && !page.session && !workspace) setWorkspace(known.workspace);
  }, [known?.name]);
  const save = async (event) => {
    event.preventDefault();
    try {
      if (ofFolder && folder.trim())
        await api("PUT", `/folders/${encodeURIComponent(folder.trim())}`, { workspace: workspace.trim() });
      await page.choose({ workspace: workspace.trim(), folder: folder.trim() });
      page.list.loadFolders();
      close();
    } catch (cause) {
      setRefused(cause);
    }
  };
  return html`<${Dialog} title=${page.session ? "Where this conversation works" : "Where the next conversation works"} close=${close}>
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
