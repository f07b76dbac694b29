// Owns the list of conversations: loads it page by page, folds in what the server tells of any of them, and
// says in which group each belongs. Rendering is `sidebar.js`.
import { api, followOnce, query } from "./wire.js";

const PAGE_SIZE = 100;
// Conversations that are read one by one at a time; a crowd is read as a list, after a moment.
const MOST_LOOKS = 6;
const CROWD_MS = 500;
const DAY = 86_400_000;

export const nameOf = (session) => session.title || session.opening || "New conversation";

/** A conversation after something about it has changed. */
function changed(known, { session_id: id, state, waiting, asking, title, pinned, archived }) {
  // Whoever begins or ends a turn was spoken in just now.
  const spoken = state === known.state ? known.last_spoken : Math.max(known.last_spoken, Date.now());
  return { ...known, id, state, waiting, asking, title, pinned, archived, last_spoken: spoken };
}

export class SessionList {
  constructor({ changed, connected }) {
    this.archived = false;
    this.problem = null;
    this.loaded = false;
    this._all = new Map();
    this._looks = new Map(); // conversations that are being read, with the last that was heard of each
    this._crowded = null; // the timer, while more is heard of than is read one by one
    this._next = 0;
    this._busy = false;
    this._changed = changed;
    this._connected = connected;
    this._sorted = null;
  }

  start() {
    this.refresh();
    this.more();
    this._following = followOnce("/events", "holdfast.changes", {
      heard: (change) => this._heard(change),
      stood: (standing) => {
        if (standing.state === "open" && this._wasLost) this._catchUp();
        this._wasLost = standing.state === "lost";
        this._connected(standing);
      },
    });
  }

  /** The conversations that are loaded, pinned ones first, then the one last spoken in. */
  get items() {
    this._sorted ??= [...this._all.values()]
      .filter((each) => Boolean(each.archived) === this.archived)
      .sort(
        (left, right) => Boolean(right.pinned) - Boolean(left.pinned) || right.last_spoken - left.last_spoken,
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
        `/sessions${query({ limit: PAGE_SIZE, offset: this._next || undefined, archived: this.archived || undefined })}`,
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
      this._take((await api("GET", `/sessions${query({ pinned: true, limit: PAGE_SIZE })}`)).items);
      this._tell();
    } catch (problem) {
      this.problem = problem;
    }
  }

  show(archived) {
    this.archived = archived;
    this._reload();
  }

  _reload() {
    this._all.clear();
    this._next = 0;
    this.loaded = false;
    this._tell();
    this.refresh();
    this.more();
  }

  // The server tells at once of all that are not idle; the others may have ended unseen.
  _catchUp() {
    this._take([...this._all.values()].map((each) => ({ ...each, state: "idle", asking: 0, waiting: 0 })));
    this._tell();
    this.refresh();
    this._readHead();
  }

  _readHead() {
    api("GET", `/sessions${query({ limit: PAGE_SIZE, archived: this.archived || undefined })}`).then(
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

  async delete(session) {
    await api("DELETE", `/sessions/${encodeURIComponent(session.id)}`);
    this.remove(session.root_id);
  }

  _take(items) {
    for (const each of items) {
      // A view that was read before the first message was stored knows less than what is known by now.
      const opening = each.opening || this._all.get(each.root_id)?.opening || "";
      this._all.set(each.root_id, { ...each, opening });
    }
    this._sorted = null;
  }

  _heard(change) {
    if (change.deleted) return this.remove(change.root_id);
    const known = this._all.get(change.root_id);
    if (known) this._take([changed(known, change)]);
    if (this._looks.has(change.root_id)) this._looks.set(change.root_id, change);
    else if (!known || (!known.title && !known.opening)) {
      if (this._looks.size < MOST_LOOKS) this._look(change);
      else this._crowded ??= setTimeout(() => this._readCrowd(), CROWD_MS);
    }
    return this._tell();
  }

  /** So many at once that they are not read one by one: the newest of them head the list. */
  _readCrowd() {
    this._crowded = null;
    this._readHead();
  }

  /** Read a conversation of which the list knows too little; what is heard meanwhile is newer. */
  async _look(change) {
    const root = change.root_id;
    this._looks.set(root, change);
    let last = change;
    try {
      const read = await api("GET", `/sessions/${encodeURIComponent(change.session_id)}`);
      last = this._looks.get(root);
      this._take([last === change ? read : changed(read, last)]);
    } catch {
      // It may be gone again; the next change tells.
    }
    this._looks.delete(root);
    const known = this._all.get(root);
    if (last !== change && !known?.title && !known?.opening) this._look(last);
    this._tell();
  }

  _tell() {
    this._sorted = null;
    this._changed();
  }
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
  const at = session.last_spoken;
  if (at >= today) return "Today";
  if (at >= today - DAY) return "Yesterday";
  if (at >= today - 7 * DAY) return "Last 7 days";
  if (at >= today - 30 * DAY) return "Last 30 days";
  return new Date(at).toLocaleDateString([], { month: "long", year: "numeric" });
}
