// Owns the layout of the page: the list at the left, the conversation with its header and composer, the panel at
// the right, and menus and dialogs above. `main.js` has the actions.
import { html } from "./lib/base.js";
import { Composer } from "./composer.js";
import { whereLives } from "./list.js";
import { Sidebar } from "./sidebar.js";

/** The draft of a conversation that has not begun. */
export const NEW = "new";

export function Shell({ page }) {
  const { session, connection } = page;
  const act = {
    newChat: page.newChat,
    memory: () => page.show("memory", { turnId: undefined }),
    chats: () => page.show("chats"),
    help: page.help,
    menu: page.openMenu,
    importFile: page.importFile,
    trying: (work) => page.trying(work),
    closeSide: () => {
      page.sideOpen = false;
      page.draw();
    },
  };
  return html`<div class=${`shell${page.sideOpen ? " side-open" : ""}${page.panel ? " has-panel" : ""}`}>
    <a class="skip" href="#/" onClick=${(event) => {
      event.preventDefault();
      page.focusComposer();
    }}>Skip to the message</a>
    <${Sidebar} list=${page.list} current=${session ? (session.state.rootId ?? session.id) : null} act=${act} connection=${connection} chatsWaiting=${page.chatsWaiting} />
    ${page.sideOpen && html`<button type="button" class="veil" aria-label="Close the list" onClick=${act.closeSide}></button>`}
    <main class="main" aria-label="Conversation">
      <${Head} page=${page} />
      <${Banner} connection=${connection} />
      ${session ? html`<${Opened} page=${page} />` : page.opening ? html`<div class="scroll"><div class="loading" role="status">Loading…</div></div>` : html`<${Empty} page=${page} />`}
    </main>
    ${page.panel && html`<${page.panel.view} page=${page} session=${session} ...${page.panel.props} close=${page.closePanel} />`}
    ${page.menu && html`<${page.menu.view} page=${page} ...${page.menu} />`}
    ${page.dialog && html`<${page.dialog.view} close=${page.closeDialog} />`}
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

function Banner({ connection }) {
  if (connection?.state === "lost")
    return html`<div class="banner warn" role="status"><span class="pulse"></span>The server can't be reached. Trying again; your text stays here.</div>`;
  if (connection?.state === "refused" && connection.problem?.status === 401)
    return html`<div class="banner bad" role="alert">This browser is not signed in. Open the link that “holdfast web” printed.</div>`;
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
      <${Composer} id=${state.rootId ?? session.id} owner=${session.id} running=${running} blocked=${gone} editing=${page.editing} cancelEdit=${page.cancelEdit} send=${page.send} stop=${page.stop} field=${page.field} />
    </div>`;
}

function Empty({ page }) {
  return html`<div class="hello">
    <h2>What shall we do?</h2>
    <p class="muted">Every message is stored before anything else happens.</p>
    ${page.notice && html`<p class="notice" role="status">${page.notice}</p>`}
    <${Composer} id=${NEW} running=${false} editing=${null} send=${page.send} field=${page.field} />
  </div>`;
}
