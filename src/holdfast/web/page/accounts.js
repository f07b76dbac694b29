// Owns the view of the accounts, for admins: who there is, what each has used of what it may, what may be changed,
// invitations, and the audit log. What takes something away is asked once more.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { AuditLog } from "./audit.js";
import { Panel, Trouble, count, useLoaded } from "./panel.js";
import { ROOT, api } from "./wire.js";

const ROLES = {
  guest: "may talk, without files and commands",
  user: "has files of its own, and commands after approval",
  admin: "the same, and manages accounts",
};
const UNITS = ["B", "kB", "MB", "GB", "TB"];
const MB = 1_000_000;

export function sizeText(bytes) {
  let [shown, unit] = [bytes, 0];
  while (shown >= 999.95 && unit + 1 < UNITS.length) [shown, unit] = [shown / 1000, unit + 1];
  return `${Number(shown.toFixed(1))} ${UNITS[unit]}`;
}

export default function Accounts({ page, close }) {
  const found = useLoaded(() => api("GET", "/users?use=true"), []);
  const [changes, setChanges] = useState(0); // so that the audit log is read again
  /** Do something, and show how it stands now. */
  const shown = (work) =>
    page.trying(async () => {
      try {
        return await work();
      } finally {
        setChanges((before) => before + 1);
        await found.again();
      }
    });
  /** Make a change and say what came of it; answers what the server said. */
  const change = (method, path, body, words) =>
    shown(async () => {
      const said = await api(method, `/users${path}`, body);
      page.say(words);
      return said;
    });
  /** End all that counts of one kind: the sign-ins of an account, or its tokens. */
  const end = (user, kind, words) =>
    shown(async () => {
      const path = `/users/${encodeURIComponent(user.id)}/tokens`;
      const now = Date.now();
      const { items } = await api("GET", path);
      const counting = items.filter((each) => each.kind === kind && each.revoked === null && (each.expires === null || each.expires > now));
      for (const each of counting) await api("DELETE", `${path}/${encodeURIComponent(each.id)}`);
      page.say(counting.length ? words : "There was none to end.");
    });
  const items = found.value?.items ?? [];
  return html`<${Panel} title="Accounts" close=${close}>
    <${Trouble} problem=${found.problem} />
    <${Invite} change=${change} />
    <ul class="accounts" aria-label="Accounts">${items.map((each) => html`<${Account} key=${each.id} user=${each} change=${change} end=${end} isSelf=${page.account?.id === each.id} />`)}</ul>
    <p class="muted"><small>Turns and tokens are those of the last 24 hours; storage is measured about once a minute. Nobody sees another's conversations here.</small></p>
    <${AuditLog} users=${items} changes=${changes} />
  <//>`;
}

function Invite({ change }) {
  const [role, setRole] = useState("user");
  const [link, setLink] = useState("");
  const field = useRef(null);
  useEffect(() => link && field.current.select(), [link]);
  const invite = async () => {
    const made = await change("POST", "/invitations", { role }, "The invitation is made. It counts once, for seven days.");
    if (made) setLink(`${location.origin}${ROOT}#/sign-in/invited/${made.code}`);
  };
  return html`<section class="account" aria-label="Invite somebody">
    <div class="line"><h3>Invite somebody</h3></div>
    <div class="buttons"><select aria-label="Role of who is invited" value=${role} onChange=${(event) => setRole(event.target.value)}>
        ${Object.keys(ROLES).map((each) => html`<option value=${each} selected=${each === role}>${each}</option>`)}</select>
      <button type="button" onClick=${invite}>Make an invitation</button></div>
    ${
      link &&
      html`<div class="forget"><input ref=${field} readonly aria-label="The link of the invitation" value=${link} onFocus=${(event) => event.target.select()} />
        <${Copy} text=${link} field=${field} /></div>
      <p class="muted"><small>Whoever has the link makes one account. It is shown this once.</small></p>`
    }
  </section>`;
}

function Copy({ text, field }) {
  const [said, setSaid] = useState("");
  useEffect(() => setSaid(""), [text]);
  const copy = async () => {
    field.current.select();
    try {
      await navigator.clipboard.writeText(text);
      setSaid("Copied.");
    } catch {
      setSaid("The browser does not allow it; the link is selected.");
    }
  };
  return html`<button type="button" onClick=${copy}>Copy the link</button><span role="status">${said}</span>`;
}

function Account({ user, change, end, isSelf }) {
  const [asked, setAsked] = useState(null); // what is asked once more: {text, label, yes}
  const path = `/${encodeURIComponent(user.id)}`;
  const patch = (body, words) => change("PATCH", path, body, words);
  const disable = () => patch({ disabled: true }, `${user.name} is disabled.`);
  const ask = (text, label, work) => setAsked({ text, label, yes: async () => (setAsked(null), await work()) });
  return html`<li class="account">
    <div class="line"><strong class="clip">${user.name}</strong><span class=${user.disabled ? "tag warn" : "tag"}>${user.role}${user.disabled ? ", disabled" : ""}${isSelf ? ", you" : ""}</span></div>
    <dl>
      <${Used} words="Turns" used=${count(user.turns_used)} most=${user.daily_turns === null ? "" : count(user.daily_turns)} />
      <${Used} words="Tokens" used=${count(user.tokens_used)} most=${user.daily_tokens === null ? "" : count(user.daily_tokens)} />
      <${Used} words="Storage" used=${sizeText(user.storage_used)} most=${user.storage_limit === null ? "" : sizeText(user.storage_limit)} />
    </dl>
    <details><summary class="muted">Change ${user.name}</summary>
      <${Limits} user=${user} patch=${patch} isSelf=${isSelf} />
      ${
        asked
          ? html`<${Sure} ...${asked} no=${() => setAsked(null)} />`
          : html`<div class="buttons">
          ${user.disabled ? html`<button type="button" onClick=${() => patch({ disabled: false }, `${user.name} is enabled.`)}>Enable</button>` : !isSelf && html`<button type="button" onClick=${() => ask(`${user.name} can do nothing more until enabled again. What runs is stopped; nothing is deleted.`, "Disable", disable)}>Disable…</button>`}
          <button type="button" onClick=${() => ask(`Every browser that is signed in as ${user.name} is signed out.`, "End sign-ins", () => end(user, "sign-in", "The sign-ins are ended."))}>End sign-ins…</button>
          <button type="button" onClick=${() => ask(`No token of ${user.name} lets a program in any more. New ones can be made.`, "End tokens", () => end(user, "token", "The tokens are ended."))}>End tokens…</button>
        </div>`
      }
    </details>
  </li>`;
}

const Used = ({ words, used, most }) => html`<div><dt>${words}</dt><dd>${used}${most ? ` of ${most}` : ""}</dd></div>`;

/** Fields of what may be changed; an empty limit is none. Storage is written in MB. */
function Limits({ user, patch, isSelf }) {
  const now = {
    role: user.role,
    daily_turns: user.daily_turns ?? "",
    daily_tokens: user.daily_tokens ?? "",
    storage: user.storage_limit === null ? "" : user.storage_limit / MB,
  };
  const [drafts, setDrafts] = useState({});
  const shown = { ...now, ...drafts };
  const changed = Object.keys(drafts).filter((key) => String(drafts[key]) !== String(now[key]));
  const set = (key) => (event) => setDrafts({ ...drafts, [key]: event.target.value });
  const save = async (event) => {
    event.preventDefault();
    const limit = (text) => (String(text).trim() === "" ? -1 : Number(text));
    const body = Object.fromEntries(
      changed.map((key) => {
        if (key === "role") return [key, shown.role];
        if (key === "storage") return ["storage_limit", shown.storage === "" ? -1 : Math.round(limit(shown.storage) * MB)];
        return [key, limit(shown[key])];
      }),
    );
    if (await patch(body, `${user.name} is changed; it counts from the next turn on.`)) setDrafts({});
  };
  const number = (key, label, step) => html`<label>${label}<input type="number" min="0" step=${step} placeholder="no limit" value=${shown[key]} onInput=${set(key)} /></label>`;
  return html`<form class="fields" onSubmit=${save}>
    <label>Role<select value=${shown.role} disabled=${isSelf} onChange=${set("role")}>
      ${Object.entries(ROLES).map(([role, words]) => html`<option value=${role} selected=${role === shown.role}>${role}: ${words}</option>`)}</select></label>
    ${number("daily_turns", "Turns in 24 hours", "1")}
    ${number("daily_tokens", "Tokens in 24 hours", "1")}
    ${number("storage", "Storage in MB", "any")}
    <div><button disabled=${!changed.length}>Save</button></div>
  </form>`;
}

/** Asks once more, in the place of the buttons. */
function Sure({ text, label, yes, no }) {
  const box = useRef(null);
  useEffect(() => {
    const row = box.current.closest("li");
    box.current.focus();
    return () => requestAnimationFrame(() => document.activeElement === document.body && row.querySelector("summary")?.focus());
  }, []);
  return html`<div class="sure" role="group" aria-label="Are you sure?" tabindex="-1" ref=${box}>
    <p>${text}</p>
    <div class="buttons"><button type="button" class="danger" onClick=${yes}>${label}</button><button type="button" onClick=${no}>Keep</button></div>
  </div>`;
}
