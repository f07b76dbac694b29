// Owns the dialog that takes back the last message: with or without what its turn did to files.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { FileChange, Undone } from "./changes.js";
import { Dialog } from "./dialog.js";
import { drafts } from "./composer.js";
import { Trouble, useLoaded } from "./panel.js";
import { api, query } from "./wire.js";

export default function Undo({ page, close }) {
  // The page goes on to another conversation while this is still shown.
  const [session] = useState(page.session);
  const [turnId] = useState(() =>
    session.state.items.findLast((item) => item.turn_id)?.turn_id,
  );
  const found = useLoaded(async () => (turnId ? api("GET", `${session.path}/changes${query({ turn_id: turnId })}`) : { items: [] }), []);
  const [files, setFiles] = useState(false);
  const [done, setDone] = useState(null);
  const [refused, setRefused] = useState(null);
  const first = useRef(null);
  const key = useRef(crypto.randomUUID?.() ?? String(Math.random()));
  useEffect(() => first.current?.focus(), [done]);
  const items = (found.value?.items ?? []).filter((each) => !each.undone);
  const undo = async () => {
    setRefused(null);
    try {
      const undone = await api("POST", `${session.path}/undo`, { files, key: key.current });
      drafts.write(undone.session.root_id, undone.text);
      page.list.put(undone.session);
      page.go(undone.session.id);
      if (files) setDone(undone.files);
      else close();
    } catch (cause) {
      setRefused(cause);
    }
  };
  if (done)
    return html`<${Dialog} title="Taken back" close=${close}><${Undone} files=${done} /><div class="buttons"><button ref=${first} type="button" class="primary" onClick=${close}>Close</button></div><//>`;
  return html`<${Dialog} title="Take back the last message" close=${close}>
    <p>The conversation goes on as if the message had not been sent; its text is put into the composer. The original stays on record.</p>
    <${Trouble} problem=${found.problem} />
    ${items.length > 0 && html`<label class="check"><input type="checkbox" checked=${files} onChange=${() => setFiles(!files)} /> and the files: put ${items.length === 1 ? "the file that its turn changed" : `the ${items.length} files that its turn changed`} back as before</label>`}
    ${items.map((each) => html`<${FileChange} key=${each.path} change=${each} />`)}
    ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
    <div class="buttons"><button ref=${first} type="button" class="primary" onClick=${undo}>Take it back${files ? " and the files" : ""}</button><button type="button" onClick=${close}>Keep it</button></div>
  <//>`;
}
