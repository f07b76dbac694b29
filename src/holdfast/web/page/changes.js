// Owns the view of changed files: what a turn or the whole conversation did to them, as diffs, and taking it back.
import { html, useState } from "./lib/base.js";
import { Panel, Trouble, useLoaded } from "./panel.js";
import { Diff } from "./tool.js";
import { api, query } from "./wire.js";

const OUTCOMES = { restored: "is as it was before", removed: "is removed again", unchanged: "was as before already", left: "is left as it is" };

/** What became of files that were to be taken back, in a sentence for each. */
export function Undone({ files }) {
  if (!files.length) return html`<p class="muted">No file was changed.</p>`;
  return html`<ul aria-label="What became of the files">${files.map((each) => html`<li class=${each.outcome === "left" ? "problem" : ""}>${each.path} ${OUTCOMES[each.outcome] ?? each.outcome}${each.reason ? `: ${each.reason}` : ""}.</li>`)}</ul>`;
}

export function FileChange({ change }) {
  return html`<details class="file-change" open>
    <summary><strong class="clip">${change.path}</strong> <span class="num">${change.note ? change.kind : `+${change.added} −${change.removed}`}</span>${change.undone && html` <span class="tag">taken back</span>`}</summary>
    ${change.diff ? html`<${Diff} patch=${change.diff} path=${change.path} />` : html`<p class="muted">${change.kind}. ${change.note}</p>`}
    ${change.problem && !change.undone && html`<p class="muted"><small>It can't be taken back: ${change.problem}.</small></p>`}
  </details>`;
}

export default function Changes({ session, turnId, close }) {
  const { state } = session;
  const found = useLoaded(() => api("GET", `${session.path}/changes${query({ turn_id: turnId })}`), [turnId, state.items]);
  const [sure, setSure] = useState(false);
  const [undone, setUndone] = useState(null);
  const [refused, setRefused] = useState(null);
  const items = found.value?.items ?? [];
  const possible = items.some((each) => !each.undone && !each.problem);
  const undo = async () => {
    setRefused(null);
    try {
      setUndone((await api("POST", `${session.path}/undo-files`, turnId ? { turn_id: turnId } : {})).files);
      setSure(false);
      found.again();
    } catch (cause) {
      setRefused(cause);
    }
  };
  return html`<${Panel} title=${turnId ? "Files changed by this turn" : "Files changed by this conversation"} close=${close}>
    <${Trouble} problem=${found.problem} />
    ${found.value && !items.length && html`<p class="muted">No change of a file is on record. What a command changes is on record only for the files of the workspace that it names.</p>`}
    ${items.map((each) => html`<${FileChange} key=${each.path} change=${each} />`)}
    ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
    ${undone && html`<div role="status"><${Undone} files=${undone} /></div>`}
    ${
      possible &&
      state.state === "idle" &&
      (sure
        ? html`<div class="sure" role="group" aria-label="Are you sure?"><p>The files are put back as they were before. What was changed since by somebody else is left.</p>
          <div class="buttons"><button type="button" class="primary" onClick=${undo}>Put them back</button><button type="button" onClick=${() => setSure(false)}>Keep</button></div></div>`
        : html`<div class="buttons"><button type="button" onClick=${() => setSure(true)}>Take the files back…</button></div>`)
    }
  <//>`;
}
