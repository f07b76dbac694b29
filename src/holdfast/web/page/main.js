// Owns the page as a whole: where it is (the address after #), which conversation is open, the panels and
// dialogs, the title, and the keys. Everything else is a part that it puts in its place.
import { html, render } from "./vendor/base.js";
import { Composer, drafts } from "./composer.js";
import { SessionList, nameOf } from "./list.js";
import { OpenSession } from "./session.js";
import { Sidebar } from "./sidebar.js";
import { api } from "./wire.js";
import { onKey } from "./keys.js";

const NEW = "new";

class Page {
  constructor(root) {
    this.root = root;
    this.session = null;
    this.target = null;
    this.editing = null;
    this.panel = null; // {name, view, props}
    this.dialog = null;
    this.menu = null;
    this.toast = null;
    this.view = null; // conversation.js and dock.js, loaded with the first conversation
    this.sideOpen = false;
    this.lost = { list: { state: "connecting" }, session: null };
    this.field = { current: null };
    this.previous = null; // the conversation that a new one follows
    this.list = new SessionList({
      changed: () => this.draw(),
      connected: (standing) => this._stood("list", standing),
    });
  }

  start() {
    addEventListener("hashchange", () => this._route());
    addEventListener("keydown", (event) => onKey(event, this));
    this.list.start();
    this._route();
  }

  _stood(which, standing) {
    this.lost = { ...this.lost, [which]: standing };
    this.draw();
  }

  /** The worse of the two connections: what a person must know. */
  get connection() {
    const both = [this.lost.session, this.lost.list].filter(Boolean);
    return both.find((each) => each.state === "refused" && each.problem?.status === 401) ?? both.find((each) => each.state === "lost") ?? both[0];
  }

  // Where the page is

  _route() {
    const found = /^#\/s\/([^/]+)(?:\/m\/(\d+))?$/.exec(location.hash);
    const id = found ? decodeURIComponent(found[1]) : null;
    const target = found?.[2] ? { session: id, seq: Number(found[2]) } : null;
    this.editing = null;
    this.sideOpen = false;
    if (id && this.session && (this.session.id === id || this.session.state.lineage.some((each) => each.id === id))) {
      this.target = target;
      if (target) this.trying(() => this.session.around(target.session, target.seq));
      return this.draw();
    }
    this.session?.close();
    this.session = null;
    this.target = target;
    this.lost = { ...this.lost, session: null };
    if (this.panel?.name !== "memory") this.panel = null;
    if (id) this._open(id, target);
    return this.draw();
  }

  _open(id, target) {
    this.previous = id;
    this.session = new OpenSession(id, {
      changed: () => this.draw(),
      connected: (standing) => this._stood("session", standing),
    }).open(target);
    if (!this.view) {
      Promise.all([import("./conversation.js"), import("./dock.js")]).then(([{ Conversation, Card }, { Dock }]) => {
        this.view = { Conversation, Card, Dock };
        this.draw();
      });
    }
  }

  go(sessionId) {
    location.hash = sessionId ? `#/s/${encodeURIComponent(sessionId)}` : "#/";
  }

  // What a person does

  async trying(work) {
    try {
      return await work();
    } catch (problem) {
      this.say(`${problem.message} ${problem.next ?? ""}`, true);
      return undefined;
    }
  }

  say(text, bad = false) {
    clearTimeout(this._silence);
    this.toast = { text, bad };
    this._silence = setTimeout(() => {
      this.toast = null;
      this.draw();
    }, bad ? 12_000 : 4_000);
    this.draw();
  }

  newChat = () => {
    this.sideOpen = false;
    if (this.session) this.go(null);
    this.draw();
    this.focusComposer();
  };

  focusComposer = () => requestAnimationFrame(() => this.field.current?.focus());

  send = async (content, mode, key) => {
    if (this.editing) return this._resend(content, key);
    if (this.session) return this.session.send(content, mode, key);
    const previous = this.previous ? { prev_session_id: this.previous } : {};
    // A second try after a failure goes to the session that the first one made.
    this._fresh ??= await api("POST", "/sessions", previous);
    const fresh = this._fresh;
    await api("POST", `/sessions/${encodeURIComponent(fresh.id)}/send`, typeof content === "string" ? { text: content, mode, key } : { content, mode, key });
    this._fresh = null;
    drafts.write(NEW, "");
    this.list.put({ ...fresh, opening: fresh.opening || (typeof content === "string" ? content : content[0]?.text ?? "").slice(0, 80), last_spoken: Date.now(), state: "running" });
    this.go(fresh.id);
    return undefined;
  };

  async _resend(content, key) {
    this.editing.branch ??= await this.session.truncate(this.editing.item);
    const { id } = this.editing.branch;
    await api("POST", `/sessions/${encodeURIComponent(id)}/send`, typeof content === "string" ? { text: content, mode: "queue", key } : { content, mode: "queue", key });
    this.editing = null;
    this.go(id);
  }

  stop = () => this.session && this.trying(() => this.session.interrupt());
  landed = () => {
    this.target = null;
  };
  seen = () => this.session.seen();

  edit = (item) => {
    const { content } = item.message;
    const parts = typeof content === "string" ? [] : content.filter((part, place) => part.type !== "text" || place > 0).map((part, place) => ({ name: `attachment ${place + 1}`, part }));
    const text = typeof content === "string" ? content : (content.find((part) => part.type === "text")?.text ?? "");
    this.editing = { item, text, parts, branch: null };
    this.draw();
  };

  cancelEdit = () => {
    this.editing = null;
    this.draw();
  };

  regenerate = () => this.trying(async () => {
    const id = await this.session.wish("retry");
    if (id && id !== this.session.state.sessionId) this.go(id);
  });

  resume = () => this.trying(() => this.session.wish("resume"));
  drop = () => this.trying(() => this.session.wish("drop"));
  runWaiting = () => this.trying(() => this.session.wish("run_waiting"));

  branch = (item, before) => this.trying(async () => {
    const place = before ? { ...item, seq: item.seq - 1 } : item;
    const made = await this.session.branch(place);
    if (before) drafts.write(made.root_id ?? made.id, typeof item.message.content === "string" ? item.message.content : "");
    this.list.put({ ...made, last_spoken: Date.now() });
    this.say("This is a branch. The original is unchanged.");
    this.go(made.id);
  });

  exportSession = (session) => {
    const link = Object.assign(document.createElement("a"), { href: `/api/sessions/${encodeURIComponent(session.id)}/export`, download: `${session.id}.jsonl` });
    link.click();
  };

  remove = async (session) => {
    await this.trying(async () => {
      await this.list.delete(session);
      if (this.session?.state.rootId === session.root_id || this.session?.id === session.id) this.go(null);
      this.previous = null;
      this.say("The conversation is deleted.");
    });
  };

  openMenu = (anchor, session, rename) => {
    const box = anchor.getBoundingClientRect();
    import("./menu.js").then(({ Menu }) => {
      this.menu = { view: Menu, anchor, top: box.bottom, left: box.right, session, rename };
      this.draw();
    });
  };

  closeMenu = () => {
    this.menu?.anchor.focus();
    this.menu = null;
    this.draw();
  };

  async show(name, props = {}) {
    if (this.panel?.name === name && !props.turnId) return this.closePanel();
    const opener = document.activeElement;
    const view = (await import(`./${name}.js`)).default;
    this.panel = { name, view, props, opener };
    return this.draw();
  }

  closePanel = () => {
    this.panel?.opener?.focus?.();
    this.panel = null;
    this.draw();
  };

  help = async () => {
    const opener = document.activeElement;
    const { default: view } = await import("./help.js");
    this.dialog = this.dialog ? null : { view, opener };
    this.draw();
  };

  closeDialog = () => {
    this.dialog?.opener?.focus?.();
    this.dialog = null;
    this.draw();
  };

  // Drawing

  draw() {
    if (this._drawing) return;
    this._drawing = true;
    queueMicrotask(() => {
      this._drawing = false;
      document.title = this._title();
      render(html`<${Shell} page=${this} />`, this.root);
    });
  }

  _title() {
    const needing = new Set(this.list.needing.map((each) => each.root_id));
    const state = this.session?.state;
    if (state?.asks.length) needing.add(state.rootId ?? this.session.id);
    const name = state ? state.title || state.opening || this._listed()?.title || "Conversation" : "";
    const where = name ? `${name.slice(0, 60)} · Holdfast` : "Holdfast";
    if (needing.size) return `(${needing.size}) needs you · ${where}`;
    return state?.live ? `… ${where}` : where;
  }

  _listed() {
    return this.session && (this.list.byId(this.session.state.rootId) ?? this.list.byId(this.session.id));
  }
}

function Shell({ page }) {
  const { session, connection } = page;
  const act = {
    newChat: page.newChat, memory: () => page.show("memory", { turnId: undefined }), help: page.help, menu: page.openMenu,
    trying: (work) => page.trying(work), closeSide: () => { page.sideOpen = false; page.draw(); },
  };
  return html`<div class=${`shell${page.sideOpen ? " side-open" : ""}${page.panel ? " has-panel" : ""}`}>
    <a class="skip" href="#/" onClick=${(event) => { event.preventDefault(); page.focusComposer(); }}>Skip to the message</a>
    <${Sidebar} list=${page.list} current=${session ? (session.state.rootId ?? session.id) : null} act=${act} connection=${connection} />
    ${page.sideOpen && html`<button type="button" class="veil" aria-label="Close the list" onClick=${act.closeSide}></button>`}
    <main class="main" aria-label="Conversation">
      <${Head} page=${page} />
      <${Banner} connection=${connection} />
      ${session ? html`<${Opened} page=${page} />` : html`<${Empty} page=${page} />`}
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
  const listed = page._listed();
  const title = state ? state.title || state.opening || (listed ? nameOf(listed) : "") : "";
  const full = state?.window ? Math.min(100, Math.round((state.context / state.window) * 100)) : null;
  return html`<header class="head">
    <button type="button" class="icon burger" aria-label="Conversations" onClick=${() => { page.sideOpen = true; page.draw(); }}>
      <svg viewBox="0 0 20 20" aria-hidden="true"><path d="M3 6h14M3 10h14M3 14h14" /></svg>
      ${page.list.needing.length > 0 && html`<span class="dot"></span>`}
    </button>
    <h1 class="clip">${title || (session ? "Conversation" : "New chat")}</h1>
    ${session && html`<button type="button" class="quiet" onClick=${() => page.show("context")} title="Context (c)" aria-label=${full === null ? "Context" : `Context, ${full} percent full`}>
      <span class="meter" aria-hidden="true"><span style=${{ width: `${full ?? 0}%` }}></span></span>${full === null ? "Context" : `${full}%`}
    </button>
    <button type="button" class="icon" aria-label="More for this conversation" aria-haspopup="menu" onClick=${(event) => listed && page.openMenu(event.currentTarget, listed, null)}>⋯</button>`}
    <button type="button" class="icon only-small" aria-label="New chat" onClick=${page.newChat}><svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 4v12M4 10h12" /></svg></button>
  </header>`;
}

function Banner({ connection }) {
  if (connection?.state === "lost") return html`<div class="banner warn" role="status"><span class="pulse"></span>The server can't be reached. Trying again; what you write stays here.</div>`;
  if (connection?.state === "refused" && connection.problem?.status === 401) return html`<div class="banner bad" role="alert">This browser is not signed in. Open the link that “holdfast web” printed.</div>`;
  return null;
}

function Opened({ page }) {
  const { session, view } = page;
  const { state, problem } = session;
  if (!view) return html`<div class="scroll"><div class="loading" role="status">Loading…</div></div>`;
  const running = state.state === "running" || state.state === "elsewhere";
  const gone = problem && !state.loaded;
  const act = {
    edit: page.edit, branch: page.branch, regenerate: page.regenerate, resume: page.resume, drop: page.drop, seen: page.seen,
    runWaiting: page.runWaiting, timeline: (turnId) => page.show("timeline", { turnId }), landed: page.landed, focusComposer: page.focusComposer,
  };
  return html`
    ${gone
      ? html`<div class="scroll"><div class="column"><${view.Card} kind="bad" title="This conversation can't be shown" text=${problem.message} more=${problem.next}><button type="button" onClick=${page.newChat}>New chat</button></${view.Card}></div></div>`
      : html`<${view.Conversation} key=${session.id} session=${session} act=${act} target=${page.target} />`}
    <div class="foot">
      <${view.Dock} session=${session} state=${state} act=${act} />
      <${Composer} id=${state.rootId ?? session.id} running=${running} blocked=${gone} editing=${page.editing} cancelEdit=${page.cancelEdit} send=${page.send} stop=${page.stop} field=${page.field} />
    </div>`;
}

function Empty({ page }) {
  return html`<div class="hello">
    <h2>What shall we do?</h2>
    <p class="muted">Every word is stored before anything else happens to it.</p>
    <${Composer} id=${NEW} running=${false} editing=${null} send=${page.send} field=${page.field} />
  </div>`;
}

new Page(document.getElementById("app")).start();
