// Owns the layout of the page: the list at the left, the conversation with its header and composer, the panel at
// the right, and menus and dialogs above. `main.js` has the actions.
import { html, useLayoutEffect, useRef, useState } from "./lib/base.js";
import { Composer } from "./composer.js";
import { closesOnEscape } from "./keys.js";
import { whereLives } from "./list.js";
import { Sidebar } from "./sidebar.js";

/** The draft of a conversation that has not begun. */
export const NEW = "new";

export function Shell({ page }) {
  if (page.signIn?.view) return html`<${page.signIn.view} why=${page.signIn.why} ways=${page.signIn.ways} />`;
  const { session, connection } = page;
  const act = {
    newChat: page.newChat,
    memory: () => page.show("memory", { turnId: undefined }),
    chats: () => page.show("chats"),
    accounts: () => page.show("accounts"),
    settings: () => page.show("settings"),
    usage: () => page.show("usage"),
    folders: () => page.open("folders"),
    find: page.find,
    help: () => page.open("help"),
    menu: page.openMenu,
    password: () => page.open("password"),
    signOut: page.signOut,
    importFile: page.importFile,
    trying: (work) => page.trying(work),
    closeSide: () => {
      page.sideOpen = false;
      page.draw();
    },
  };
  return html`<div class=${`shell${page.sideOpen ? " side-open" : ""}${page.panel ? " has-panel" : ""}`}>
    <a class="skip" href="#message" onClick=${(event) => {
      event.preventDefault();
      page.focusComposer();
    }}>Skip to the message</a>
    <${Sidebar} list=${page.list} current=${session ? (session.state.rootId ?? session.id) : null} act=${act} connection=${connection} chatsWaiting=${page.chatsWaiting} account=${page.account} isOwner=${page.isOwner} isAdmin=${page.isAdmin} />
    ${page.sideOpen && html`<button type="button" class="veil" aria-label="Close the list" onClick=${act.closeSide}></button>`}
    <main class="main" aria-label="Conversation">
      <${Head} page=${page} />
      <${Banner} connection=${connection} />
      ${session ? html`<${Opened} page=${page} />` : page.opening ? html`<div class="scroll"><div class="loading" role="status">Loading…</div></div>` : html`<${Empty} page=${page} />`}
      ${page.menu && html`<${page.menu.view} page=${page} ...${page.menu} />`}
    </main>
    ${page.panel && html`<${page.panel.view} page=${page} session=${session} ...${page.panel.props} close=${page.closePanel} />`}
    ${page.dialog && html`<${page.dialog.view} page=${page} ...${page.dialog.props} close=${page.closeDialog} />`}
    <div class="toasts" role="status" aria-live="polite">${page.toast && html`<div class=${`toast${page.toast.bad ? " bad" : ""}`}>${page.toast.text}</div>`}</div>
  </div>`;
}

function Head({ page }) {
  const { session } = page;
  const state = session?.state;
  const listed = page.listed;
  const where = state ? whereLives(state) : "";
  const full = state?.window ? Math.min(100, Math.round((state.context / state.window) * 100)) : null;
  return html`<header class="head">
    <button type="button" class="icon burger" aria-label="Conversations" onClick=${() => {
      page.sideOpen = true;
      page.draw();
    }}>
      <svg viewBox="0 0 20 20" aria-hidden="true"><path d="M3 6h14M3 10h14M3 14h14" /></svg>
      ${page.list.needing.length > 0 && html`<span class="dot"></span>`}
    </button>
    <div class="title">
      <h1 class="clip">${page.name || "New chat"}</h1>
      ${where && html`<button type="button" class="where clip" title=${where} onClick=${() => page.show("chats")}>${where}</button>`}
      ${state?.branchFrom && html`<a class="where clip" href=${`#/s/${state.branchFrom}`} title="Open the original">Branch of “${state.branchOf || "a conversation"}”</a>`}
      <${InUse} page=${page} />
    </div>
    ${
      session &&
      html`<button type="button" class="quiet" onClick=${() => page.show("context")} title="Context (c)" aria-label=${full === null ? "Context" : `Context, ${full} percent full`}>
      <span class="meter" aria-hidden="true"><span style=${{ width: `${full ?? 0}%` }}></span></span>${full === null ? "Context" : `${full}%`}
    </button>
    <button type="button" class="icon" aria-label="More for this conversation" aria-haspopup="menu" onClick=${(event) => listed && page.openMenu(event.currentTarget, listed, null)}>⋯</button>`
    }
    <button type="button" class="icon only-small" aria-label="New chat" onClick=${page.newChat}><svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 4v12M4 10h12" /></svg></button>
  </header>`;
}

/** The tool profile of the open conversation, or of the next one: `{name, reason, chosen}`. */
export function toolsInUse({ session, fresh, usualTools }) {
  const known = session?.state.toolProfile;
  if (known) return { ...known, chosen: known.reason === "chosen for this conversation" };
  if (!session && fresh.tool_profile) return { name: fresh.tool_profile, reason: "chosen", chosen: true };
  const [, name, reason] = /^(\S+) \((.*)\)$/.exec(usualTools) ?? ["", usualTools, ""];
  return { name, reason, chosen: false };
}

/** Which model answers, where tools work and of which ones the model is told, for the open conversation or the next one. */
function InUse({ page }) {
  const { model, workspace, folder } = page.chosen;
  const tools = toolsInUse(page);
  const place = workspace || page.workspace;
  if (!page.model) return null;
  return html`<div class="in-use">
    <button type="button" class="where clip" title="Change the model" aria-label=${`Model: ${model || page.model.name}`} onClick=${() => page.open("models")}>${model || page.model.name}</button>
    ${place && html`<button type="button" class="where clip" title=${`Works in ${place}${folder ? `, folder ${folder}` : ""}`} aria-label=${`Workspace: ${place}`} onClick=${() => page.open("place")}>${shortPath(place)}${folder ? ` · ${folder}` : ""}</button>`}
    <button type="button" class="where clip" title=${`The model is told of these tools: ${tools.reason}`} aria-label=${`Tools: ${tools.name}`} onClick=${() => page.open("tools")}>${tools.name} tools</button>
  </div>`;
}

const shortPath = (path) => (path.startsWith("/") ? `…/${path.split("/").filter(Boolean).slice(-2).join("/")}` : path);

function Tools({ page }) {
  const name = page.chosen.model || page.model?.name || "";
  return html`${page.isOwner && html`<button type="button" class="icon" aria-label="Prompts of your own" title="Prompts of your own (p)" onClick=${() => page.open("prompts")}><svg viewBox="0 0 20 20" aria-hidden="true"><path d="M5 4h10v12l-5-3-5 3z" /></svg></button>`}
    ${name && html`<button type="button" class="quiet model clip" title="Choose a model (l)" aria-label=${`Choose a model; now ${name}`} onClick=${() => page.open("models")}>${name}</button>`}`;
}

function Banner({ connection }) {
  if (connection?.state === "lost")
    return html`<div class="banner warn" role="status"><span class="pulse"></span>The server can't be reached${navigator.onLine ? "" : ": this device is offline"}. Trying again; your text stays here.</div>`;
  return null;
}

function Opened({ page }) {
  const { session, view } = page;
  const { state, problem } = session;
  const running = state.state === "running" || state.state === "elsewhere" || state.compacting;
  // It may have been deleted from another place while it was open here.
  const gone = problem && (!state.loaded || problem.status === 404);
  const act = {
    edit: page.edit,
    branch: page.branch,
    regenerate: page.regenerate,
    resume: page.resume,
    drop: page.drop,
    seen: page.seen,
    runWaiting: page.runWaiting,
    timeline: (turnId) => page.show("timeline", { turnId }),
    changes: (turnId) => page.show("changes", { turnId }),
    undo: () => page.open("undo"),
    landed: page.landed,
    focusComposer: page.focusComposer,
  };
  return html`
    ${
      gone
        ? html`<div class="scroll"><div class="column"><${view.Card} kind="bad" title="This conversation can't be shown" text=${problem.message} more=${problem.next}><button type="button" onClick=${page.newChat}>New chat</button></${view.Card}></div></div>`
        : html`<${view.Conversation} key=${session.id} session=${session} act=${act} target=${page.target} />`
    }
    <div class="foot">
      <${view.Dock} session=${session} state=${state} act=${act} />
      <${Composer} id=${state.rootId ?? session.id} owner=${session.id} running=${running} blocked=${gone} connected=${page.connection?.state === "open"} editing=${page.editing} cancelEdit=${page.cancelEdit} send=${page.send} stop=${page.stop} field=${page.field} tools=${html`<${Tools} page=${page} />`} />
    </div>`;
}

function Empty({ page }) {
  return html`<div class="hello">
    <h2>What shall we do?</h2>
    <p class="muted">Every message is stored before anything else happens.</p>
    ${page.model?.notice && html`<p class="notice" role="status">${page.model.notice}</p>`}
    ${page.welcome && html`<${page.welcome} page=${page} />`}
    <${Composer} id=${NEW} running=${false} connected=${page.connection?.state === "open"} editing=${null} send=${page.send} field=${page.field} tools=${html`<${Tools} page=${page} />`} />
  </div>`;
}

/** The field of the palette: there, and in focus, before the next key; what it finds comes with `palette.js`. */
export function Finder({ page, close }) {
  const [words, setWords] = useState("");
  const [early, setEarly] = useState(false);
  const [view, setView] = useState(null);
  const box = useRef(null);
  const field = useRef(null);
  const keys = useRef(null);
  useLayoutEffect(() => {
    box.current.showModal();
    field.current.focus();
    page.trying(async () => setView({ Palette: (await import("./palette.js")).default }));
  }, []);
  const onKeyDown = (event) => {
    closesOnEscape(event, close);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step && event.key !== "Enter") return;
    event.preventDefault();
    if (step) keys.current?.move(step);
    else if (keys.current) keys.current.enter();
    else setEarly(true);
  };
  return html`<dialog ref=${box} class="palette" aria-label="Do something" onClose=${close} onClick=${(event) => event.target === box.current && box.current.close()}>
    <div class="dialog-head"><h2>Do something</h2><button type="button" class="icon" aria-label="Close" onClick=${() => box.current.close()}>×</button></div>
    <input ref=${field} class="wide" role="combobox" aria-expanded=${Boolean(view)} aria-controls="palette-list" aria-activedescendant=${view ? "palette-at" : null} aria-label="What to do" placeholder="An action, a conversation, a prompt" value=${words}
      onInput=${(event) => setWords(event.target.value)} onKeyDown=${onKeyDown} />
    ${view && html`<${view.Palette} page=${page} words=${words} early=${early} keys=${keys} close=${close} />`}
  </dialog>`;
}
