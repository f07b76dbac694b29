// Owns one open conversation: follows its stream, loads stored messages around the visible ones, and sends the
// person's actions to the server. Its data is in `state`, folded by `fold.js`; the renderer is notified of each change.
import { blank, fold } from "./fold.js";
import { api, follow, messageBody, query } from "./wire.js";

const PAGE_SIZE = 100;
const HIDDEN_MS = 60_000;

export class OpenSession {
  constructor(id, { changed, connected, begun = null, now = () => Date.now() }) {
    this.id = id;
    this.state = blank(id);
    this.problem = null;
    this.sent = 0; // messages sent from here: each brings the end into sight
    this._changed = changed;
    this._connected = connected;
    this._begun = begun; // the stream it was begun with
    this._now = now;
    this._target = null;
    this._loading = false;
    this._loadedAsOf = -1;
    this._paging = { older: false, newer: false };
    this._queued = false;
    this._seen = () => this._watch();
  }

  get path() {
    return `/sessions/${encodeURIComponent(this.state.sessionId ?? this.id)}`;
  }

  /** Begin to follow; with a target `{session, seq}` the messages around it are shown first. */
  open(target = null) {
    this._target = target;
    this._stream();
    document.addEventListener("visibilitychange", this._seen);
    return this;
  }

  close() {
    this._following?.close();
    clearTimeout(this._hiding);
    document.removeEventListener("visibilitychange", this._seen);
    this._changed = () => {};
    this._connected = () => {};
  }

  _stream() {
    this._following = follow(`/sessions/${encodeURIComponent(this.id)}/events`, {
      after: this.state.number,
      begun: this._begun,
      onEvent: (event) => this._fold(event),
      onState: (connection) => {
        if (connection.state === "refused") this.problem = connection.problem;
        this._connected(connection);
        this._tell();
      },
    });
    this._begun = null;
  }

  // A hidden tab closes its stream, and catches up when it is shown again.
  _watch() {
    clearTimeout(this._hiding);
    if (document.visibilityState === "hidden") {
      this._hiding = setTimeout(() => {
        this._following?.close();
        this._following = null;
      }, HIDDEN_MS);
    } else if (!this._following) {
      this._stream();
    }
  }

  _fold(event) {
    const before = this.state;
    this.state = fold(before, event);
    if (this.state.stale > this._loadedAsOf) this._load();
    if (this.state !== before) this._tell();
  }

  // Many pieces of an answer are rendered together.
  _tell() {
    if (this._queued) return;
    this._queued = true;
    const run = () => {
      this._queued = false;
      this._changed(this);
    };
    if (document.visibilityState === "visible") requestAnimationFrame(run);
    else setTimeout(run, 100);
  }

  async _load() {
    if (this._loading) return;
    this._loading = true;
    let delay = 300;
    try {
      while (this.state.stale > this._loadedAsOf) {
        const asOf = this.state.stale;
        try {
          await this._loadOnce(asOf);
          this._loadedAsOf = asOf;
          this.problem = null;
        } catch (problem) {
          this.problem = problem;
          this._tell();
          if (problem.status >= 400 && problem.status < 500) return;
          await new Promise((resolve) => setTimeout(resolve, delay));
          delay = Math.min(delay * 2, 8_000);
        }
      }
    } finally {
      this._loading = false;
    }
  }

  async _loadOnce(asOf) {
    const begun = this.state;
    const [detail, page] = await Promise.all([api("GET", this.path), this._tail()]);
    this._fold({ kind: "page.detail", detail, at: this._now(), begun });
    // The ancestors are known from here on.
    const hasBefore = page.hasBefore || this._parent(page.items[0]) !== null;
    if (page.around) this._showAround(page);
    else if (!this.state.hasAfter) this._fold({ kind: "page.tail", asOf, ...page, hasBefore });
  }

  async _tail() {
    if (this._target) {
      const page = await this._around(this._target);
      this._target = null;
      return page;
    }
    const last = this.state.items.at(-1);
    const known = last && last.session_id === this.state.sessionId && !this.state.hasAfter;
    const items = [];
    let more = true;
    let after = known ? last.seq : undefined;
    let first = null;
    // All messages since the last load are loaded, so that none is missing; the first load is one page.
    while (more) {
      const page = await api("GET", `${this.path}/messages${query({ after, limit: PAGE_SIZE })}`);
      first ??= page;
      items.push(...page.items);
      more = known && page.has_more;
      after = page.items.at(-1)?.seq;
    }
    return { items, fresh: !known, hasBefore: known ? this.state.hasBefore : first.has_more };
  }

  async _around({ session, seq }) {
    const before = await this._page(session, { before: seq + 1, limit: PAGE_SIZE / 2 });
    const after = await this._page(session, { after: seq, limit: PAGE_SIZE / 2 });
    const items = [...before.items, ...after.items];
    return { around: true, session, items, hasBefore: before.has_more, hasAfter: after.has_more };
  }

  _place(item) {
    return this.state.lineage.findIndex((each) => each.id === item?.session_id);
  }

  _parent(item) {
    const place = this._place(item);
    return place > 0 ? this.state.lineage[place - 1].id : null;
  }

  /** Load messages before the visible ones, also from before a compaction. */
  async older() {
    const first = this.state.items[0];
    if (this._paging.older || !this.state.hasBefore || !first) return;
    this._paging.older = true;
    try {
      let session = first.session_id;
      let page = first.seq > 0 ? await this._page(session, { before: first.seq }) : { items: [] };
      if (!page.items.length && this._parent(first)) {
        session = this._parent(first);
        page = await this._page(session, {});
      }
      const hasBefore = page.has_more || (page.items.length > 0 && this._parent(page.items[0]) !== null);
      this._fold({ kind: "page.older", items: page.items, hasBefore });
    } catch (problem) {
      this.problem = problem;
    } finally {
      this._paging.older = false;
      this._tell();
    }
  }

  /** Load messages after the visible ones, up to the running turn. */
  async newer() {
    const last = this.state.items.at(-1);
    if (this._paging.newer || !this.state.hasAfter || !last) return;
    this._paging.newer = true;
    try {
      let page = await this._page(last.session_id, { after: last.seq });
      const next = this.state.lineage[this._place(last) + 1]?.id;
      if (!page.items.length && next) page = await this._page(next, { after: -1 });
      const end = page.items.at(-1) ?? last;
      const hasAfter = page.has_more || end.session_id !== this.state.sessionId;
      this._fold({ kind: "page.newer", items: page.items, hasAfter });
      if (!hasAfter) this._fold({ kind: "page.reload" });
    } catch (problem) {
      this.problem = problem;
    } finally {
      this._paging.newer = false;
      this._tell();
    }
  }

  _page(session, where) {
    const path = `/sessions/${encodeURIComponent(session)}/messages`;
    return api("GET", `${path}${query({ exact: true, limit: PAGE_SIZE, ...where })}`);
  }

  /** Show the end of the conversation again. */
  async toEnd() {
    if (!this.state.hasAfter) return;
    const asOf = this.state.stale;
    const page = await api("GET", `${this.path}/messages${query({ limit: PAGE_SIZE })}`);
    this._fold({
      kind: "page.tail",
      items: page.items,
      hasBefore: page.has_more || this._parent(page.items[0]) !== null,
      asOf,
      fresh: true,
    });
  }

  async around(session, seq) {
    this._showAround(await this._around({ session, seq }));
  }

  _showAround(page) {
    const hasBefore = page.hasBefore || this._parent(page.items[0]) !== null;
    const hasAfter = page.hasAfter || page.session !== this.state.sessionId;
    this._fold({ kind: "page.around", ...page, hasBefore, hasAfter });
  }

  // Actions. Each raises `Problem` when the server refuses it.

  async send(content, mode, key) {
    const accepted = await api("POST", `${this.path}/send`, messageBody(content, mode, key));
    this.sent += 1;
    this._fold({
      kind: "page.sent",
      inbox_id: accepted.inbox_id,
      mode: accepted.mode,
      message: { role: "user", content },
      at: this._now(),
    });
    return accepted;
  }

  interrupt() {
    return api("POST", `${this.path}/interrupt`, {});
  }

  async decide(ask, decision, text) {
    await api("POST", `${this.path}/approvals/${encodeURIComponent(ask.ask_id)}`, { decision, text });
    this._fold({ kind: "page.answered", ask_id: ask.ask_id, outcome: decision });
  }

  async answer(ask, text) {
    const { counted } = await api("POST", `${this.path}/answers/${encodeURIComponent(ask.ask_id)}`, { text });
    this._fold({ kind: "page.answered", ask_id: ask.ask_id, outcome: text });
    if (!counted) this._fold({ kind: "page.reload" });
  }

  async change(inboxId, text, mode) {
    const changed = await api("PUT", `${this.path}/waiting/${inboxId}`, { text, mode });
    this._fold({
      kind: "page.changed",
      inbox_id: inboxId,
      message: changed.message ?? { role: "user", content: text },
      mode: changed.mode ?? mode,
    });
  }

  async withdraw(inboxId) {
    await api("DELETE", `${this.path}/waiting/${inboxId}`);
    this._fold({ kind: "page.withdrawn", inbox_id: inboxId });
  }

  reload() {
    this._fold({ kind: "page.reload" });
  }

  seen() {
    this._fold({ kind: "page.seen" });
  }

  /** Run retry, resume, drop, compact or run_waiting; returns the session that goes on. */
  async command(what, body = {}) {
    const { session_id } = await api("POST", `${this.path}/${what}`, body);
    this.reload();
    return session_id;
  }

  /** A new conversation that ends with this message, which may be in an ancestor. */
  branch(item) {
    const place = { before: item.seq + 1, exact: true };
    return api("POST", `/sessions/${encodeURIComponent(item.session_id)}/branch`, place);
  }

  truncate(item) {
    return api("POST", `${this.path}/truncate`, { before: item.seq });
  }

  async rename(title) {
    await api("PATCH", this.path, { title });
    this._fold({ kind: "page.named", title });
  }
}
