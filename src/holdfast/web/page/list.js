// Owns the list of conversations: loads it page by page, applies the server's changes, and puts each in its
// group. `sidebar.js` renders it.
import { ROOT, api, followOnce, query } from "./wire.js";

const PAGE_SIZE = 100;
// How many conversations are read one by one; more than that are read as a list, after a moment.
const MOST_READS = 6;
const LIST_DELAY_MS = 500;
const DAY = 86_400_000;

export const nameOf = (session) => session.title || session.opening || "New conversation";
// Whose conversation it is stands before its name; the owner's own say nothing.
export function nameWithScope(session) {
  if (!session.scope) return nameOf(session);
  const [place] = session.chats ?? [];
  const whose = place && (place.is_direct ? place.person : place.title);
  return `${whose || session.scope}: ${nameOf(session)}`;
}

/** The name of a chat platform, with that of the account where it has one of its own. */
export function platformOf({ platform, account }) {
  const name = platform || account;
  const shown = name.charAt(0).toUpperCase() + name.slice(1);
  return platform && platform !== account ? `${shown} (${account})` : shown;
}

/** Where a chat is: “in Telegram, with Ada”. */
export function whereIs(place) {
  const platform = platformOf(place);
  if (place.is_direct) return `in ${platform}${place.person ? `, with ${place.person}` : ""}`;
  const group = place.title || "a group";
  return place.thread ? `in ${platform}, in a thread of ${group}` : `in ${platform}, in ${group}`;
}

/** The chats in which a conversation goes on, in words; empty for one that goes on here alone. */
export const whereLives = (session) => (session.chats ?? []).map(whereIs).join("; ");

/** A conversation after something about it has changed. */
function changed(known, { session_id: id, state, waiting, asking, title, pinned, archived }) {
  // A turn that begins or ends counts as activity.
  const active = state === known.state ? known.last_active : Math.max(known.last_active, Date.now());
  return { ...known, id, state, waiting, asking, title, pinned, archived, last_active: active };
}

export class SessionList {
  constructor({ changed, connected }) {
    this.archived = false;
    this.api = false; // only the conversations that clients of /v1 began without a name
    this.folder = ""; // only the conversations of this folder are shown; empty: all
    this.folders = [];
    this.problem = null;
    this.loaded = false;
    this._all = new Map();
    this._reads = new Map(); // conversations that are being read, with the last change of each
    this._listTimer = null; // the timer of the next read of the list
    this._next = 0;
    this._busy = false;
    this._changed = changed;
    this._connected = connected;
    this._sorted = null;
  }

  start() {
    this.refresh();
    this.more();
    this._following = followOnce("/events", `holdfast.changes${ROOT}`, {
      onEvent: (change) => this._onChange(change),
      onState: (connection) => {
        if (connection.state === "open" && this._wasLost) this._catchUp();
        this._wasLost = connection.state === "lost";
        this._connected(connection);
      },
    });
  }

  /** The loaded conversations, pinned ones first, then the most recent. */
  get items() {
    this._sorted ??= [...this._all.values()]
      .filter((each) => (each.source === "api") === this.api)
      .filter((each) => Boolean(each.archived) === this.archived && (!this.folder || each.folder === this.folder))
      .sort(
        (left, right) => Boolean(right.pinned) - Boolean(left.pinned) || right.last_active - left.last_active,
      );
    return this._sorted;
  }

  get needing() {
    return [...this._all.values()].filter((each) => each.asking > 0);
  }

  get isWhole() {
    return this._next === null;
  }

  byId(id) {
    return this._all.get(id) ?? [...this._all.values()].find((each) => each.id === id);
  }

  /** Load the next page. */
  async more() {
    if (this._busy || this._next === null) return;
    this._busy = true;
    try {
      const page = await api(
        "GET",
        `/sessions${query({ limit: PAGE_SIZE, offset: this._next || undefined, archived: this.archived || undefined, api: this.api || undefined, folder: this.folder })}`,
      );
      this._next = page.next_offset;
      this._take(page.items);
      this.loaded = true;
      this.problem = null;
    } catch (problem) {
      this.problem = problem;
    } finally {
      this._busy = false;
      this._tell();
    }
  }

  /** The pinned ones may be older than any page that is loaded. */
  async refresh() {
    try {
      this._take((await api("GET", `/sessions${query({ pinned: true, limit: PAGE_SIZE, api: this.api || undefined })}`)).items);
      this._tell();
    } catch (problem) {
      this.problem = problem;
    }
  }

  show(archived) {
    this.archived = archived;
    this._reload();
  }

  showApi(api) {
    this.api = api;
    this._reload();
  }

  showFolder(folder) {
    this.folder = folder;
    this._reload();
  }

  async loadFolders() {
    this.folders = (await api("GET", "/folders")).items.map((each) => each.name);
    this._tell();
  }

  _reload() {
    this._all.clear();
    this._next = 0;
    this.loaded = false;
    this._tell();
    this.refresh();
    this.more();
  }

  // The server first sends all that are not idle; the others may have ended without an event.
  _catchUp() {
    this._take([...this._all.values()].map((each) => ({ ...each, state: "idle", asking: 0, waiting: 0 })));
    this._tell();
    this.refresh();
    this._readHead();
  }

  _readHead() {
    const which = { archived: this.archived || undefined, api: this.api || undefined };
    api("GET", `/sessions${query({ limit: PAGE_SIZE, ...which })}`).then(
      ({ items }) => {
        this._take(items);
        this._tell();
      },
      () => {},
    );
  }

  put(session) {
    this._take([session]);
    this._tell();
  }

  remove(rootId) {
    if (this._all.delete(rootId) && this._next) this._next -= 1;
    this._tell();
  }

  /** Rename, pin or archive. Raises `Problem`. */
  async patch(session, change) {
    this.put({ ...session, ...(await api("PATCH", `/sessions/${encodeURIComponent(session.id)}`, change)) });
  }

  async delete(session, forgetMemory) {
    const how = forgetMemory ? query({ forget_memory: true }) : "";
    await api("DELETE", `/sessions/${encodeURIComponent(session.id)}${how}`);
    this.remove(session.root_id);
  }

  _take(items) {
    for (const each of items) {
      // A view that was read before the first message was stored is older than the list.
      const opening = each.opening || this._all.get(each.root_id)?.opening || "";
      this._all.set(each.root_id, { ...each, opening });
    }
    this._sorted = null;
  }

  _onChange(change) {
    if (change.deleted) return this.remove(change.root_id);
    const known = this._all.get(change.root_id);
    if (known) this._take([changed(known, change)]);
    if (this._reads.has(change.root_id)) this._reads.set(change.root_id, change);
    else if (!known || (!known.title && !known.opening)) {
      if (this._reads.size < MOST_READS) this._read(change);
      else this._listTimer ??= setTimeout(() => this._readList(), LIST_DELAY_MS);
    }
    return this._tell();
  }

  /** Read the head of the list, when too many changed to read them one by one. */
  _readList() {
    this._listTimer = null;
    this._readHead();
  }

  /** Read a conversation that the list does not know well; events that come in the meantime are newer. */
  async _read(change) {
    const root = change.root_id;
    this._reads.set(root, change);
    let last = change;
    try {
      const read = await api("GET", `/sessions/${encodeURIComponent(change.session_id)}`);
      last = this._reads.get(root);
      this._take([last === change ? read : changed(read, last)]);
    } catch {
      // It may be deleted again; the next change shows that.
    }
    this._reads.delete(root);
    const known = this._all.get(root);
    if (last !== change && !known?.title && !known?.opening) this._read(last);
    this._tell();
  }

  _tell() {
    this._sorted = null;
    this._changed();
  }
}

/** A day, and with `clock` the time of day where it is today. */
export function shortDate(at, clock = false) {
  const today = new Date().setHours(0, 0, 0, 0);
  if (at >= today) return clock ? new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : "today";
  const sameYear = new Date(at).getFullYear() === new Date(today).getFullYear();
  return new Date(at).toLocaleDateString([], { day: "numeric", month: "short", ...(sameYear ? {} : { year: "numeric" }) });
}

/** Found messages by conversation, the one with the best hit first. */
export function byConversation(hits) {
  const groups = new Map();
  for (const hit of hits) {
    if (!groups.has(hit.root_id)) groups.set(hit.root_id, { ...hit, hits: [] });
    groups.get(hit.root_id).hits.push(hit);
  }
  return [...groups.values()];
}

/** Headings and conversations in the order they are shown. */
export function grouped(items, now) {
  const today = new Date(now).setHours(0, 0, 0, 0);
  const rows = [];
  let heading = null;
  for (const session of items) {
    const name = groupOf(session, today);
    if (name !== heading) rows.push({ heading: (heading = name) });
    rows.push({ session });
  }
  return rows;
}

function groupOf(session, today) {
  if (session.pinned) return "Pinned";
  const at = session.last_active;
  if (at >= today) return "Today";
  if (at >= today - DAY) return "Yesterday";
  if (at >= today - 7 * DAY) return "Last 7 days";
  if (at >= today - 30 * DAY) return "Last 30 days";
  return new Date(at).toLocaleDateString([], { month: "long", year: "numeric" });
}
