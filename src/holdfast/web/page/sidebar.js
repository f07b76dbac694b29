// Owns the left side: new chat, a search that opens the message it finds, import, and the list of conversations,
// of which only the visible rows are in the document.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib/base.js";
import { byConversation, grouped, nameOf, nameWithScope, platformOf, shortDate, whereLives } from "./list.js";
import { api, query } from "./wire.js";

const ROW = 38;
const HEADING = 34;
const MARGIN = 400;

export function Sidebar({ list, current, act, connection, chatsWaiting, account, isOwner, isAdmin }) {
  const [words, setWords] = useState("");
  const found = useSearch(words, list.api);
  return html`<nav class="sidebar" aria-label="Conversations">
    <div class="side-head">
      <span class="brand"><svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 3v14M10 17c-4 0-6-3-6-6M10 17c4 0 6-3 6-6M6 7h8" /><circle cx="10" cy="3" r="1.6" /></svg>Holdfast</span>
      <button type="button" class="new" onClick=${act.newChat} title="New chat (n)">New chat</button>
    </div>
    <div class="search" role="search">
      <input id="search" type="search" aria-label="Search all conversations" placeholder="Search" value=${words}
        onInput=${(event) => setWords(event.target.value)}
        onKeyDown=${(event) => event.key === "Escape" && (setWords(""), event.target.blur())} />
      <kbd aria-hidden="true">/</kbd>
    </div>
    ${list.folders.length > 0 && !words.trim() && html`<${Folders} list=${list} act=${act} isOwner=${isOwner} />`}
    ${words.trim() ? html`<${Hits} found=${found} words=${words} list=${list} />` : html`<${Rows} list=${list} current=${current} act=${act} />`}
    <div class="side-views">
      <button type="button" class="quiet" onClick=${act.memory} title="Memory (m)">Memory</button>
      <button type="button" class="quiet" onClick=${act.usage} title="Usage (u)">Usage</button>
      ${isOwner && html`<button type="button" class="quiet" onClick=${act.settings} title="Settings (s)">Settings</button>
      <button type="button" class="quiet" onClick=${act.chats} title="Chats (g)" aria-label=${chatsWaiting ? `Chats, ${chatsWaiting} ${chatsWaiting === 1 ? "waits" : "wait"} for you` : "Chats"}>Chats${chatsWaiting > 0 && html`<span class="badge asking">${chatsWaiting}</span>`}</button>`}
      ${isAdmin && html`<button type="button" class="quiet" onClick=${act.accounts} title="Accounts (a)">Accounts</button>`}
    </div>
    ${account && html`<${Account} account=${account} act=${act} />`}
    <div class="side-foot">
      <${ConnectionState} connection=${connection} />
      <button type="button" class="quiet" aria-pressed=${list.archived} onClick=${() => list.show(!list.archived)}>${list.archived ? "Back to all" : "Archived"}</button>
      <button type="button" class="quiet" aria-pressed=${list.api} title="Requests of the API's clients that name no conversation" onClick=${() => list.showApi(!list.api)}>${list.api ? "Not API" : "API"}</button>
      ${isOwner && html`<${Import} act=${act} />`}
      <span class="space"></span>
      <button type="button" class="quiet" onClick=${act.find} title="Do something (Ctrl+K)" aria-label="Do something"><svg viewBox="0 0 20 20" aria-hidden="true"><path d="M4 5l5 5-5 5M11 15h5" /></svg></button>
      <button type="button" class="quiet" onClick=${act.help} title="Keyboard (?)" aria-label="Keyboard shortcuts">?</button>
    </div>
  </nav>`;
}

/** Whose browser this is. A proxy that signs people in would do so again at once. */
function Account({ account, act }) {
  return html`<div class="side-account" role="group" aria-label="Account"><span class="clip" title=${account.name}>${account.name}</span>
    ${account.can_sign_out && !account.is_owner && html`<button type="button" class="quiet" onClick=${act.password}>Password</button>`}
    ${account.can_sign_out && html`<button type="button" class="quiet" onClick=${act.signOut}>Sign out</button>`}
  </div>`;
}

function Folders({ list, act, isOwner }) {
  return html`<div class="folders"><select aria-label="Folder" value=${list.folder} onChange=${(event) => list.showFolder(event.target.value)}>
    <option value="">All conversations</option>
    ${list.folders.map((each) => html`<option value=${each} selected=${each === list.folder}>${each}</option>`)}
  </select>${isOwner && html`<button type="button" class="icon" aria-label="Change the folders" title="Change the folders (b)" onClick=${act.folders}>⋯</button>`}</div>`;
}

function Import({ act }) {
  const file = useRef(null);
  const chosen = async (event) => {
    const [given] = event.target.files;
    if (given) await act.importFile(given);
    file.current.value = ""; // so that the same file can be chosen again
  };
  return html`<button type="button" class="quiet" onClick=${() => file.current.click()} title="Import an exported conversation">Import</button>
    <input ref=${file} type="file" hidden accept=".ndjson,.jsonl" aria-label="File to import" onChange=${chosen} />`;
}

function ConnectionState({ connection }) {
  const label = {
    open: "Connected",
    connecting: "Connecting…",
    lost: "No connection",
    refused: "Not allowed",
  }[connection.state];
  return html`<span class=${`connection ${connection.state}`} title=${label}><span class="sr">${label}</span></span>`;
}

function useSearch(words, onlyApi) {
  const [found, setFound] = useState({ items: [], problem: null, busy: false });
  useEffect(() => {
    if (!words.trim()) return undefined;
    let wanted = true;
    setFound((before) => ({ ...before, busy: true }));
    const timer = setTimeout(async () => {
      try {
        const { items } = await api("GET", `/search${query({ q: words.trim(), limit: 50, api: onlyApi || undefined })}`);
        if (wanted) setFound({ items, problem: null, busy: false });
      } catch (problem) {
        if (wanted) setFound({ items: [], problem, busy: false });
      }
    }, 180);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [words, onlyApi]);
  return found;
}

export const marked = (snippet) =>
  snippet
    .split(/(\u0001[^\u0002]*\u0002?)/)
    .map((part) =>
      part.startsWith("\u0001") ? html`<mark>${part.replace(/[\u0001\u0002]/g, "")}</mark>` : part,
    );

const SPEAKERS = { user: "You: ", tool: "Tool: " };

function Hits({ found, words, list }) {
  const groups = byConversation(found.items);
  // A conversation whose messages are found stands below with them.
  const shown = new Set(groups.map((each) => each.root_id));
  const titles = list.items
    .filter((each) => !shown.has(each.root_id) && nameOf(each).toLowerCase().includes(words.trim().toLowerCase()))
    .slice(0, 5);
  const inAll = groups.length > 1 ? ` in ${groups.length} conversations` : "";
  const result = found.busy
    ? "Searching…"
    : `${found.items.length} ${found.items.length === 1 ? "message" : "messages"} found${inAll}`;
  return html`<div class="hits">
    <p class="muted" role="status">${result}</p>
    ${found.problem && html`<p class="problem" role="alert">${found.problem.message} ${found.problem.next}</p>`}
    ${
      titles.length > 0 &&
      html`<h2>Titles</h2><ul aria-label="Conversations by title">
        ${titles.map((each) => html`<li key=${each.root_id}><a href=${`#/s/${each.id}`}><span class="hit-head"><span class="clip">${nameOf(each)}</span><time>${shortDate(each.last_active)}</time></span></a></li>`)}
      </ul>`
    }
    ${groups.map(
      (group) => html`<div key=${group.root_id} class="hit-group" role="group" aria-label=${nameOf(group)}>
        <h2 class="hit-head"><a class="clip" href=${`#/s/${group.session_id}/m/${group.seq}`}>${nameOf(group)}</a>${group.archived && html`<span class="tag">archived</span>`}<time>${shortDate(group.last_active)}</time></h2>
        <ul>${group.hits.map(
          (hit) => html`<li key=${`${hit.session_id}:${hit.seq}`}>
          <a href=${`#/s/${hit.session_id}/m/${hit.seq}`}>
            <span class="snippet">${SPEAKERS[hit.role] ?? ""}${marked(hit.snippet)}</span>
            <time>${shortDate(hit.at, true)}</time>
          </a>
        </li>`,
        )}</ul>
      </div>`,
    )}
  </div>`;
}

function Rows({ list, current, act }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const rows = grouped(list.items, Date.now());
  const tops = [];
  let height = 0;
  for (const row of rows) {
    tops.push(height);
    height += row.heading ? HEADING : ROW;
  }
  const look = () => setView({ top: box.current.scrollTop, height: box.current.clientHeight });
  useLayoutEffect(look, []);
  useEffect(() => {
    if (list.loaded && view.top + view.height + 3 * MARGIN > height) list.more();
  });
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.matches("a")) return;
    const place = rows.findIndex((row) => row.session?.root_id === event.target.dataset.root);
    let next = place + step;
    while (rows[next]?.heading) next += step;
    if (!rows[next]) return;
    event.preventDefault();
    const top = tops[next];
    if (top < box.current.scrollTop || top + ROW > box.current.scrollTop + box.current.clientHeight)
      box.current.scrollTop = top - box.current.clientHeight / 2;
    look();
    requestAnimationFrame(() =>
      box.current.querySelector(`a[data-root="${CSS.escape(rows[next].session.root_id)}"]`)?.focus(),
    );
  };
  return html`<div class="rows" ref=${box} onScroll=${look} onKeyDown=${onKeyDown}>
    ${list.problem && html`<p class="problem" role="alert">${list.problem.message}</p>`}
    ${list.loaded && !rows.length && html`<p class="muted empty">${list.archived ? "Nothing is archived." : list.api ? "No requests without a name." : "No conversations yet."}</p>`}
    <ul style=${{ height: `${height}px` }}>
      ${rows.map((row, place) => {
        const outside = tops[place] < view.top - MARGIN || tops[place] > view.top + view.height + MARGIN;
        if (outside) return null;
        const style = { transform: `translateY(${tops[place]}px)` };
        if (row.heading)
          return html`<li key=${`group ${row.heading}`} class="heading" style=${style}><h2>${row.heading}</h2></li>`;
        return html`<${Entry} key=${row.session.root_id} session=${row.session} style=${style} isCurrent=${row.session.root_id === current || row.session.id === current} list=${list} act=${act} />`;
      })}
    </ul>
  </div>`;
}

function Entry({ session, style, isCurrent, list, act }) {
  const [renaming, setRenaming] = useState(null);
  const input = useRef(null);
  useEffect(() => input.current?.select(), [renaming !== null]);
  const rename = async () => {
    const title = renaming?.trim();
    setRenaming(null);
    if (title && title !== session.title) await act.trying(() => list.patch(session, { title }));
  };
  if (renaming !== null) {
    return html`<li class="entry" style=${style}><input ref=${input} aria-label="New title" value=${renaming} onInput=${(event) => setRenaming(event.target.value)} onBlur=${rename}
      onKeyDown=${(event) => {
        if (event.key === "Enter") rename();
        if (event.key === "Escape") {
          event.stopPropagation();
          setRenaming(null);
        }
      }} /></li>`;
  }
  const menu = (event) => act.menu(event.currentTarget, session, () => setRenaming(nameOf(session)));
  return html`<li class=${`entry${isCurrent ? " current" : ""}`} style=${style}>
    <a href=${`#/s/${session.id}`} data-root=${session.root_id} aria-current=${isCurrent ? "page" : null} title=${`${nameWithScope(session)}${branchOf(session)}`} onClick=${act.closeSide}>
      <${Badge} session=${session} />${typeof session.branch_of === "string" && html`<svg class="fork" viewBox="0 0 20 20" aria-hidden="true"><path d="M6 4v12M6 12c6 0 8-2 8-7" /></svg>`}<span class="clip">${nameWithScope(session)}</span><span class="sr">${branchOf(session)}</span><${Where} session=${session} />
    </a>
    <button type="button" class="dots" aria-label=${`More for ${nameOf(session)}`} aria-haspopup="menu" onClick=${menu}>⋯</button>
  </li>`;
}

const branchOf = ({ branch_of: left }) => (typeof left === "string" ? `, a branch of “${left || "a conversation"}”` : "");

/** The chat platform that a conversation lives on. */
function Where({ session }) {
  const [place] = session.chats ?? [];
  return place && html`<span class="tag" title=${whereLives(session)}>${platformOf({ ...place, account: place.platform || place.account })}</span>`;
}

function Badge({ session }) {
  if (session.asking) return html`<span class="badge asking">needs you</span>`;
  if (session.state === "unfinished") return html`<span class="badge cutoff">cut off</span>`;
  if (session.state === "running" || session.state === "elsewhere")
    return html`<span class="badge running"><span class="pulse"></span><span class="sr">running</span></span>`;
  if (session.waiting) return html`<span class="badge">${session.waiting} waiting</span>`;
  return null;
}
