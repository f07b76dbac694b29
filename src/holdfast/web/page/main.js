// Owns the page as a whole: where it is (the address after #), which conversation is open, the panels and
// dialogs, the title, and the actions behind its buttons. `shell.js` draws it.
import { html, render } from "./lib/base.js";
import { drafts } from "./composer.js";
import { onKey } from "./keys.js";
import { SessionList, nameOf } from "./list.js";
import { Finder, NEW, Shell } from "./shell.js";
import { api, begin, messageBody } from "./wire.js";

const STATUS_MS = 30_000;
// Panels that are about more than one conversation.
const STAYING = new Set(["memory", "chats", "settings", "usage", "accounts"]);

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
    this.model = null; // the usual one
    this.workspace = "";
    this.usualTools = ""; // the tool profile where nothing else is chosen, and why: "NAME (REASON)"
    this.fresh = { model: "", workspace: "", folder: "", tool_profile: "" }; // what is chosen for the next conversation
    this.welcome = null; // the view of a first start
    this.chatsWaiting = 0; // strangers and undelivered posts on chat platforms that wait for a person
    this.view = null; // what shows a conversation, loaded with the first one
    this.opening = null;
    this.sideOpen = false;
    this.signIn = null; // what is shown to a browser without the token
    this.account = null; // whose browser this is, where there are accounts
    this.isOwner = true; // whether this browser may ask for what is not an account's own
    this.lost = { list: { state: "connecting" }, session: null };
    this.field = { current: null };
    this.previous = null; // the conversation that a new one follows
    this.begun = null; // the one that was just begun, with the stream it was begun with: {id, stream}
    this.list = new SessionList({
      changed: () => {
        this.notifier?.look(this.list);
        this.draw();
      },
      connected: (connection) => this._connectionChanged("list", connection),
    });
  }

  start() {
    addEventListener("hashchange", () => this._route());
    addEventListener("keydown", (event) => onKey(event, this));
    this.root.replaceChildren();
    this.list.start();
    const look = document.documentElement.dataset;
    try {
      Object.assign(look, JSON.parse(localStorage.getItem("holdfast.appearance") ?? "{}"));
    } catch {
      // Nothing is kept in this browser.
    }
    if (look.notify === "true") this.notifications(true);
    // An installed app has no address bar to say why it stays empty when the server is gone: the worker does.
    if (matchMedia("(display-mode: standalone)").matches) import("./notify.js").then(({ registerWorker }) => registerWorker());
    this._route();
    setInterval(() => document.visibilityState === "visible" && this.loadStatus().catch(() => {}), STATUS_MS);
  }

  _connectionChanged(which, connection) {
    this.lost = { ...this.lost, [which]: connection };
    // Of a connection that is lost again the banner tells.
    if (which === "list" && connection.state === "open") this.loadStatus().catch((problem) => problem.status && this.say(`${problem.message} ${problem.next}`, true));
    if (connection.problem?.status === 401) this._signIn("");
    this.draw();
  }

  /** Another model may answer after the server was started again, so this is asked with each connection. */
  async loadStatus() {
    const status = await api("GET", "/status");
    this.model = status.model;
    this.workspace = status.workspace;
    this.usualTools = status.tool_profile;
    this.account = status.account ?? null;
    this.isOwner = this.account?.is_owner ?? true;
    this.list.folders = status.folders ?? [];
    this.chatsWaiting = status.chats_waiting ?? 0;
    if (this.model?.name === "no model") this.welcome ??= (await import("./welcome.js")).default;
    else this.welcome = null;
    this.draw();
  }

  /** Whether this browser may manage accounts; where there are none, nothing of them shows. */
  get isAdmin() {
    return Boolean(this.account && (this.account.is_owner || this.account.role === "admin"));
  }

  /** Nothing can be shown before somebody has signed in. */
  async _signIn(why) {
    if (this.signIn) return;
    this.signIn = { why, view: null };
    // Without an answer there is the field for the token.
    const [{ default: view }, ways] = await Promise.all([import("./signin.js"), api("GET", "/sign-in/ways").catch(() => ({}))]);
    this.signIn = { why, view, ways };
    this.draw();
  }

  /** The worse of the two connections, for the person. */
  get connection() {
    const both = [this.lost.session, this.lost.list].filter(Boolean);
    return (
      both.find((each) => each.state === "refused" && each.problem?.status === 401) ??
      both.find((each) => each.state === "lost") ??
      both[0]
    );
  }

  // Where the page is

  _route() {
    if (location.hash.startsWith("#/sign-in")) return this._signIn(location.hash.split("/")[2] ?? "");
    const found = /^#\/s\/([^/]+)(?:\/m\/(\d+))?$/.exec(location.hash);
    const id = found ? decodeURIComponent(found[1]) : null;
    const target = found?.[2] ? { session: id, seq: Number(found[2]) } : null;
    this.editing = null;
    this.sideOpen = false;
    if (id && this._isOpen(id)) {
      this.target = target;
      if (target) this.trying(() => this.session.around(target.session, target.seq));
      return this.draw();
    }
    this.session?.close();
    this.session = null;
    this.opening = null;
    if (this.begun?.id !== id) this._leaveBegun();
    this.target = target;
    this.lost = { ...this.lost, session: null };
    if (!STAYING.has(this.panel?.name)) this.panel = null;
    if (id) this._open(id, target);
    return this.draw();
  }

  _isOpen(id) {
    return this.session?.id === id || this.session?.state.lineage.some((each) => each.id === id);
  }

  _leaveBegun() {
    this.begun?.stream?.close();
    this.begun = null;
  }

  async _open(id, target) {
    this.previous = id;
    this.opening = id;
    this.draw();
    const [session, conversation, dock] = await Promise.all([
      import("./session.js"),
      import("./conversation.js"),
      import("./dock.js"),
    ]);
    if (this.opening !== id) return;
    this.opening = null;
    this.view = { ...conversation, ...dock };
    const stream = this.begun?.id === id ? this.begun.stream : null;
    if (stream) this.begun = null;
    this.session = new session.OpenSession(id, {
      changed: () => this.draw(),
      connected: (connection) => this._connectionChanged("session", connection),
      begun: stream,
    }).open(target);
    this.draw();
  }

  go(sessionId) {
    location.hash = sessionId ? `#/s/${encodeURIComponent(sessionId)}` : "#/";
  }

  // Actions

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
    this._silence = setTimeout(
      () => {
        this.toast = null;
        this.draw();
      },
      bad ? 12_000 : 4_000,
    );
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
    // By its key, a second try after a failure finds the conversation that the first one began.
    const chosen = Object.fromEntries(Object.entries(this.fresh).filter(([, value]) => value));
    const { view, stream } = await begin({ ...previous, ...chosen, message: messageBody(content, mode, key) });
    drafts.write(NEW, "");
    this.list.put({ ...view, state: "running" });
    if (chosen.folder) this.trying(() => this.list.loadFolders());
    this._leaveBegun();
    // The person may have opened it from the list in the meantime.
    if (this._isOpen(view.id) || this.opening === view.id) stream?.close();
    else this.begun = { id: view.id, stream };
    this.go(view.id);
    return undefined;
  };

  async _resend(content, key) {
    this.editing.branch ??= await this.session.truncate(this.editing.item);
    const { id } = this.editing.branch;
    await api("POST", `/sessions/${encodeURIComponent(id)}/send`, messageBody(content, "queue", key));
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
    const parts =
      typeof content === "string"
        ? []
        : content
            .filter((part, place) => part.type !== "text" || place > 0)
            .map((part, place) => ({ name: `attachment ${place + 1}`, part }));
    const text =
      typeof content === "string" ? content : (content.find((part) => part.type === "text")?.text ?? "");
    this.editing = { item, text, parts, branch: null };
    this.draw();
  };

  cancelEdit = () => {
    this.editing = null;
    this.draw();
  };

  regenerate = () =>
    this.trying(async () => {
      const id = await this.session.command("retry");
      if (id && id !== this.session.state.sessionId) this.go(id);
    });

  resume = () => this.trying(() => this.session.command("resume"));
  drop = () => this.trying(() => this.session.command("drop"));
  runWaiting = () => this.trying(() => this.session.command("run_waiting"));

  branch = (item, before) =>
    this.trying(async () => {
      const place = before ? { ...item, seq: item.seq - 1 } : item;
      const made = await this.session.branch(place);
      if (before)
        drafts.write(
          made.root_id ?? made.id,
          typeof item.message.content === "string" ? item.message.content : "",
        );
      this.list.put({ ...made, last_active: Date.now() });
      this.say("This is a branch. The original is unchanged.");
      this.go(made.id);
    });

  /** A folder has another name now, or, with an empty one, is gone. */
  folderMoved(was, name) {
    if (this.fresh.folder === was) this.fresh = { ...this.fresh, folder: name };
    this.list.showFolder(this.list.folder === was ? name : this.list.folder);
    this.session?.reload();
  }

  // What is chosen for the open conversation, or for the next one

  get chosen() {
    return this.chosenFor(null);
  }

  /** The same for a conversation of the list; null: for the open one, or for the next one. */
  chosenFor(listed) {
    const known = listed ?? (this.session ? (this.listed ?? this.session.state) : this.fresh);
    return { model: known.model ?? "", workspace: known.workspace ?? "", folder: known.folder ?? "" };
  }

  /** Raises `Problem` when the server refuses it. */
  async choose(change) {
    if (this.session) {
      await this.list.patch(this.listed ?? { id: this.session.id }, change);
      this.session.reload();
    } else this.fresh = { ...this.fresh, ...change };
    this.draw();
  }

  /** Put a text into the composer, after what is there. */
  insert = (text) => {
    const area = this.field.current;
    if (!area) return;
    area.value = area.value.trim() ? `${area.value.trimEnd()}\n\n${text}` : text;
    area.dispatchEvent(new Event("input", { bubbles: true }));
    this.focusComposer();
  };

  /** Switch notifications on or off; answers whether the browser allows them. */
  async notifications(wanted) {
    const { Notifier, allowed } = await import("./notify.js");
    const given = wanted && (await allowed());
    this.notifier = given ? new Notifier() : null;
    this.notifier?.look(this.list);
    return given;
  }

  signOut = () =>
    this.trying(async () => {
      await api("POST", "/sign-out");
      location.assign(location.pathname);
    });

  share = (what, session) => this.trying(async () => (await import("./share.js"))[what](session.id));

  importFile = (file) =>
    this.trying(async () => {
      // As bytes: reading the file as text would hide invalid UTF-8.
      const made = await api("POST", "/sessions/import", await file.arrayBuffer());
      this.list.put(made);
      this.say(`“${nameOf(made)}” is imported.`);
      this.go(made.id);
    });

  remove = async (session, forgetMemory) => {
    await this.trying(async () => {
      await this.list.delete(session, forgetMemory);
      if (this.session?.state.rootId === session.root_id || this.session?.id === session.id) this.go(null);
      this.previous = null;
      this.say(forgetMemory ? "The conversation is deleted, and memory forgets it." : "The conversation is deleted.");
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
    this.sideOpen = false;
    return this.draw();
  }

  closePanel = () => {
    this.panel?.opener?.focus?.();
    this.panel = null;
    this.draw();
  };

  /** Open a dialog: `folders`, `help`, `models`, `password`, `place`, `prompts`, `tools` or `undo`. */
  open = async (name, props = {}) => {
    const opener = document.activeElement;
    const { default: view } = await import(`./${name}.js`);
    this._openDialog(view, opener, props);
  };

  /** Open the palette. Letters may follow at once, so nothing is waited for. */
  find = () => this._openDialog(Finder, document.activeElement);

  _openDialog(view, opener, props = {}) {
    this.sideOpen = false;
    this.dialog = this.dialog ? null : { view, opener, props };
    this.draw();
  }

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
    const { name } = this;
    const where = name ? `${name.slice(0, 60)} · Holdfast` : "Holdfast";
    if (needing.size) return `(${needing.size}) needs you · ${where}`;
    return state?.live ? `… ${where}` : where;
  }

  /** The name of the open conversation; the list gets a new title first. */
  get name() {
    if (!this.session) return "";
    const known = this.listed ?? this.session.state;
    return known.title || known.opening || "Conversation";
  }

  get listed() {
    return this.session && (this.list.byId(this.session.state.rootId) ?? this.list.byId(this.session.id));
  }
}

new Page(document.getElementById("app")).start();
