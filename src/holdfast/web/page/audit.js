// Owns the audit log in the view of the accounts: the newest entries, and older ones on demand.
import { html, useState } from "./lib/base.js";
import { Trouble, useLoaded } from "./panel.js";
import { api, query } from "./wire.js";

const AT_ONCE = 50;

/** `changes` counts what was changed here: the newest entries are read again. */
export function AuditLog({ users, changes }) {
  const [open, setOpen] = useState(false);
  const [older, setOlder] = useState({ of: 0, items: [], ended: false });
  const first = useLoaded(() => (open ? api("GET", `/users/audit${query({ limit: AT_ONCE })}`) : null), [open, changes]);
  const [problem, setProblem] = useState(null);
  const names = Object.fromEntries(users.map((each) => [each.scope, each.name]));
  const newest = first.value?.items ?? [];
  // What was loaded behind an earlier beginning would leave a gap.
  const behind = older.of === newest[0]?.id ? older : { items: [], ended: newest.length < AT_ONCE };
  const items = [...newest, ...behind.items];
  const more = async () => {
    try {
      const found = await api("GET", `/users/audit${query({ limit: AT_ONCE, before: items.at(-1).id })}`);
      setOlder({ of: newest[0].id, items: [...behind.items, ...found.items], ended: found.items.length < AT_ONCE });
      setProblem(null);
    } catch (refused) {
      setProblem(refused);
    }
  };
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>Audit log</summary>
    <${Trouble} problem=${first.problem ?? problem} />
    <ul aria-label="Audit log">${items.map(
      (each) => html`<li key=${each.id}>
        <div class="line"><strong>${each.action}</strong><time>${new Date(each.at).toLocaleString([], { dateStyle: "short", timeStyle: "short" })}</time></div>
        <small>${names[each.actor] ?? (each.actor || "(unknown)")}${each.target && each.target !== each.actor ? ` → ${names[each.target] ?? each.target}` : ""}${each.detail ? `: ${each.detail}` : ""}</small>
      </li>`,
    )}</ul>
    ${open && first.value && !items.length && html`<p class="muted">Nothing is on record yet.</p>`}
    ${items.length > 0 && !behind.ended && html`<button type="button" onClick=${more}>Older entries</button>`}
  </details>`;
}
