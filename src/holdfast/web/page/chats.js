// Owns the view of the chat platforms: how each account stands, what could not be delivered, the strangers who
// wait, and who may talk. What changes a right, or can't be undone, is asked once more.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { platformOf, whereIs } from "./list.js";
import { Panel, Trouble, ago, count, useLoaded } from "./panel.js";
import { api } from "./wire.js";

const ROLES = {
  owner: "may do all that you may do in the terminal, with your memory and files",
  user: "has own conversations, memory and files, and may use commands",
  guest: "has own conversations, without commands and files",
  blocked: "gets no answer",
};
const STATES = {
  waiting: "another process serves it",
  connecting: "connecting…",
  "catching up": "catching up…",
  connected: "connected",
  unreachable: "can't be reached",
  refused: "refused",
};
const KINDS = { answer: "An answer", notice: "A notice", ask: "A question", file: "A file" };

export default function Chats({ page, close }) {
  const found = useLoaded(() => api("GET", "/chats"), []);
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && found.again(), 5_000);
    return () => clearInterval(timer);
  }, []);
  const accounts = found.value?.accounts ?? [];
  /** Make a change, say what came of it, and show how it stands now. */
  const change = (method, path, body, words) =>
    page.trying(async () => {
      try {
        await api(method, `/chats/${path}`, body);
        page.say(words);
      } finally {
        await Promise.all([found.again(), page.loadStatus()]);
      }
    });
  return html`<${Panel} title="Chats" close=${close}>
    <${Trouble} problem=${found.problem} />
    ${
      found.value &&
      !accounts.length &&
      html`<p class="muted">No chat account is set up. In a terminal, <code>holdfast gateway setup telegram</code> sets one up; discord, slack and matrix too.</p>`
    }
    ${accounts.map((each) => html`<${Account} key=${each.name} account=${each} change=${change} />`)}
  </${Panel}>`;
}

function Account({ account, change }) {
  const { serving, held, posts, events, failed, pairings, people } = account;
  const name = platformOf({ account: account.name, platform: account.platform });
  const state = serving ? (STATES[serving.state] ?? serving.state) : held ? "served by another process" : "not served";
  const bad = serving ? serving.state === "unreachable" || serving.state === "refused" : !held;
  const received = Object.values(events).reduce((sum, each) => sum + each, 0);
  const onTheWay = (posts.due ?? 0) + (posts.open ?? 0);
  return html`<section class="account" aria-label=${name}>
    <div class="line"><h3>${name}</h3><span class=${bad ? "tag warn" : "tag"} role="status">${state}</span></div>
    ${serving?.name && html`<small>as ${serving.name}</small>`}
    ${serving?.detail && html`<p class="problem">${serving.detail}</p>`}
    ${!held && !serving && html`<p class="muted">What people write there waits on the platform. <code>holdfast gateway</code> serves it, or start this page with <code>holdfast web --gateway</code>.</p>`}
    <dl>
      <div><dt>Received</dt><dd>${count(received)}${events.new ? `, ${count(events.new)} wait` : ""}${events.refused ? `, ${count(events.refused)} refused` : ""}</dd></div>
      <div><dt>Sent</dt><dd>${count(posts.sent)}${onTheWay ? `, ${count(onTheWay)} on the way` : ""}</dd></div>
      <${Cursor} cursors=${account.cursors} />
    </dl>
    ${pairings.length > 0 && html`<h4>Ask to be let in</h4><ul aria-label="Ask to be let in">${pairings.map((each) => html`<${Stranger} key=${each.code} stranger=${each} account=${account.name} change=${change} />`)}</ul>`}
    ${
      failed.length > 0 &&
      html`<h4>Could not be delivered</h4>
      <ul aria-label="Could not be delivered">${failed.map((each) => html`<${Failed} key=${each.id} post=${each} change=${change} />`)}</ul>
      ${posts.failed > failed.length && html`<p class="muted">and ${count(posts.failed - failed.length)} more</p>`}`
    }
    <h4>May talk</h4>
    ${!people.length && html`<p class="muted">Nobody yet. Whoever writes to the bot gets a code, and is shown here.</p>`}
    <ul aria-label="May talk">${people.map((each) => html`<${Person} key=${each.person} person=${each} change=${change} />`)}</ul>
    <${LetIn} account=${account.name} change=${change} />
  </section>`;
}

function Cursor({ cursors }) {
  const { "": whole, ...chats } = cursors;
  const many = Object.keys(chats).length;
  if (!whole && !many) return null;
  return html`<div><dt>Received up to</dt><dd>${[whole, many && `a place in ${count(many)} chats`].filter(Boolean).join(", and ")}</dd></div>`;
}

function Stranger({ stranger, account, change }) {
  const [role, setRole] = useState("user");
  const [asked, setAsked] = useState(""); // what is asked once more: "let in" or "block"
  const name = stranger.name || stranger.person;
  const letIn = () => change("POST", `pairings/${encodeURIComponent(stranger.code)}/approve`, { role }, `${name} is let in as ${role}.`);
  const block = () => change("PUT", personPath(account, stranger.person), { role: "blocked", name: stranger.name }, `${name} is blocked.`);
  const minutes = Math.max(0, (stranger.expires_at - Date.now()) / 1000);
  return html`<li>
    <div class="line"><strong>${name}</strong><code>${stranger.code}</code></div>
    <small>${stranger.person}; the code is good for ${ago(minutes)}</small>
    ${
      asked
        ? html`<${Sure} text=${asked === "block" ? `${name} ${ROLES.blocked}.` : `${name} then ${ROLES[role]}. Ask for the code first, and compare it.`}
            label=${asked === "block" ? "Block" : `Let in as ${role}`} danger=${asked === "block"} yes=${asked === "block" ? block : letIn} not="Not now" no=${() => setAsked("")} focus=${true} />`
        : html`<div class="buttons"><${RoleChoice} label=${`Role for ${name}`} role=${role} choose=${setRole} offered=${["user", "guest", "owner"]} />
            <button type="button" aria-label=${`Let ${name} in`} onClick=${() => setAsked("let in")}>Let in…</button>
            <button type="button" aria-label=${`Block ${name}`} onClick=${() => setAsked("block")}>Block…</button></div>`
    }
  </li>`;
}

function Failed({ post, change }) {
  const [asked, setAsked] = useState(false);
  const attempts = post.attempts === 1 ? "1 attempt" : `${count(post.attempts)} attempts`;
  const settle = (what, words) => change("POST", `posts/${post.id}/${what}`, {}, words);
  return html`<li>
    <div class="line"><strong>${KINDS[post.kind] ?? post.kind}</strong><span class="num">${new Date(post.at).toLocaleString([], { dateStyle: "short", timeStyle: "short" })}</span></div>
    ${post.text && html`<p class="detail">${post.text}</p>`}
    <p class="problem">${post.error || "It could not be delivered."}</p>
    <small>${post.place ? whereIs(post.place) : "its chat is gone"}${post.attempts ? `; ${attempts}` : ""}${post.session_id ? html`; <a href=${`#/s/${encodeURIComponent(post.session_id)}`}>the conversation</a>` : ""}</small>
    ${
      asked
        ? html`<${Sure} text="It stays in the conversation here, and nobody reads it in the chat." label="Drop for good" danger=${true} yes=${() => settle("drop", "It is dropped.")} no=${() => setAsked(false)} focus=${true} />`
        : html`<div class="buttons"><button type="button" onClick=${() => settle("retry", "It is sent again.")}>Try again</button><button type="button" onClick=${() => setAsked(true)}>Drop…</button></div>`
    }
  </li>`;
}

function Person({ person, change }) {
  const [role, setRole] = useState(person.role); // what was chosen and is asked once more
  const [leaving, setLeaving] = useState(false);
  const name = person.name || person.person;
  const path = personPath(person.account, person.person);
  const asked = leaving || role !== person.role;
  const keep = () => {
    setRole(person.role);
    setLeaving(false);
  };
  const yes = async () => {
    await (leaving
      ? change("DELETE", path, undefined, `${name} is a stranger now.`)
      : change("PUT", path, { role }, `${name} is ${role} now.`));
    setLeaving(false);
  };
  useEffect(() => setRole(person.role), [person.role]);
  return html`<li>
    <div class="line"><strong>${name}</strong><${RoleChoice} label=${`Role of ${name}`} role=${role} choose=${setRole} offered=${Object.keys(ROLES)} /></div>
    <div class="line"><small>${person.person}</small>${!asked && html`<button type="button" class="quiet" aria-label=${`Remove ${name}`} onClick=${() => setLeaving(true)}>Remove…</button>`}</div>
    ${asked && html`<${Sure} text=${leaving ? `${name} becomes a stranger: whoever writes gets a code, and no answer.` : `${name} ${ROLES[role]}.`} label=${leaving ? "Remove" : `Make ${role}`} danger=${leaving || role === "blocked"} yes=${yes} no=${keep} focus=${leaving} />`}
  </li>`;
}

function LetIn({ account, change }) {
  const [person, setPerson] = useState("");
  const [role, setRole] = useState("user");
  const id = person.trim();
  const letIn = async () => {
    await change("PUT", personPath(account, id), { role }, `${id} is let in as ${role}.`);
    setPerson("");
  };
  return html`<details><summary class="muted">Let somebody in by id</summary>
    <div class="forget" role="group" aria-label="Let somebody in by id">
      <input aria-label="The platform's id of the person" placeholder="The platform's id of the person" value=${person} onInput=${(event) => setPerson(event.target.value)} />
      <${RoleChoice} label="Role" role=${role} choose=${setRole} offered=${["user", "guest", "owner"]} />
      <button type="button" disabled=${!id} onClick=${letIn}>Let in as ${role}</button>
    </div>
  </details>`;
}

function RoleChoice({ label, role, choose, offered }) {
  return html`<select aria-label=${label} value=${role} onChange=${(event) => choose(event.target.value)}>
    ${offered.map((each) => html`<option value=${each} selected=${each === role}>${each}</option>`)}
  </select>`;
}

/** Asks once more, in place. With `focus` it takes the place of the button that was pressed, and gives it back. */
function Sure({ text, label, danger, yes, no, not = "Keep", focus }) {
  const box = useRef(null);
  useEffect(() => {
    if (!focus) return undefined;
    const row = box.current.closest("li");
    box.current.focus();
    return () =>
      requestAnimationFrame(() => {
        if (document.activeElement !== document.body) return;
        (row.isConnected ? row.querySelector("button") : document.querySelector(".panel"))?.focus();
      });
  }, []);
  return html`<div class="sure" role="group" aria-label="Are you sure?" tabindex="-1" ref=${box}>
    <p>${text}</p>
    <div class="buttons"><button type="button" class=${danger ? "danger" : "primary"} onClick=${yes}>${label}</button><button type="button" onClick=${no}>${not}</button></div>
  </div>`;
}

const personPath = (account, person) => `${encodeURIComponent(account)}/people/${encodeURIComponent(person)}`;
