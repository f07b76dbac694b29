// Owns every byte between page and server: `api` for one call, `follow` for an event stream that reconnects
// by itself from the last event it saw, `followOnce` for one stream shared by all tabs of a browser.

// The path of the page: `/`, or the path that a proxy adds.
export const ROOT = import.meta.url.startsWith("http") ? new URL("./", import.meta.url).pathname : "/";

export class Problem extends Error {
  constructor(status, details) {
    super(details.detail || details.title || `The server answered ${status}.`);
    this.status = status;
    this.reason = details.reason ?? "";
    this.next = details.next ?? "";
  }
}

const UNREACHABLE = {
  detail: "The server can't be reached.",
  reason: "Unreachable",
  next: "Nothing was lost here. Start it again with “holdfast web”; this page goes on by itself.",
};

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new Problem(0, UNREACHABLE);
  }
  if (response.ok) return response;
  let details = {};
  try {
    details = await response.json();
  } catch {
    details = { detail: `The server answered ${response.status} ${response.statusText}.` };
  }
  throw new Problem(response.status, details);
}

/** One call; returns the JSON of the answer, or null. Bytes are sent as lines of JSON. Raises `Problem`. */
export async function api(method, path, body) {
  const lines = body instanceof ArrayBuffer;
  const headers =
    body === undefined ? {} : { "content-type": lines ? "application/x-ndjson" : "application/json" };
  const sent = body === undefined || lines ? body : JSON.stringify(body);
  const response = await answered(`${ROOT}api${path}`, { method, headers, body: sent });
  return response.status === 204 ? null : response.json();
}

/** Show the token once; from then on the browser's cookie has it. Raises `Problem`. */
export const signIn = (token) =>
  answered(`${ROOT}api/sign-in`, { method: "POST", headers: { authorization: `Bearer ${token.replace(/[^\x21-\x7e]/g, "")}` } });

/** Sign in to an account; from then on the browser's cookie lets it in. Raises `Problem`. */
export const signInByPassword = (name, password) => api("POST", "/sign-in/password", { name, password });

/** Make the account of an invitation, with a password or null; the answer has its first token. Raises `Problem`. */
export const accept = (code, name, password) => api("POST", `/invitations/${encodeURIComponent(code)}`, { name, password });

/** A message as the server takes it; its content is a text, or a list of parts. */
export const messageBody = (content, mode, key) =>
  typeof content === "string" ? { text: content, mode, key } : { content, mode, key };

/**
 * Begin a conversation with a message. Answers how it stands, and the stream that its events come in, which
 * `follow` goes on with. Raises `Problem`.
 */
export async function begin({ tool_profile: tools, ...body }) {
  if (tools) return beginWithTools(tools, body);
  const headers = { accept: "text/event-stream", "content-type": "application/json" };
  const response = await answered(`${ROOT}api/sessions`, { method: "POST", headers, body: JSON.stringify(body) });
  // With too many open streams the answer is the conversation alone; it is then followed like any other.
  if (!response.headers.get("content-type")?.startsWith("text/event-stream"))
    return { view: await response.json(), stream: null };
  const stream = new Stream(response);
  const first = await stream.next().catch(() => null);
  if (!first) throw new Problem(0, UNREACHABLE);
  return { view: JSON.parse(first.data), stream };
}

/** A conversation whose tools are chosen is there before its first message, so that its first turn has them. */
async function beginWithTools(tools, { message, ...body }) {
  const view = await api("POST", "/sessions", { ...body, key: `${message.key}-session` });
  const path = `/sessions/${encodeURIComponent(view.id)}`;
  await api("PATCH", path, { tool_profile: tools });
  await api("POST", `${path}/send`, message);
  return { view, stream: null };
}

/** The events of an answer, one after another. */
class Stream {
  constructor(response) {
    this._reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    this._events = [];
    this._rest = "";
  }

  /** The next event, or null at the end. `alive()` is called whenever something comes. */
  async next(alive = () => {}) {
    while (!this._events.length) {
      const { done, value } = await this._reader.read();
      if (done) return null;
      alive();
      const parsed = parseEvents(this._rest + value);
      this._rest = parsed.rest;
      this._events = parsed.events;
    }
    return this._events.shift();
  }

  close() {
    this._reader.cancel().catch(() => {});
  }
}

export const query = (parameters) => {
  const given = Object.entries(parameters).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

/** The events in a piece of an event stream; `rest` is the unfinished last one. */
export function parseEvents(text) {
  const parts = text.split(/\r?\n\r?\n/);
  const rest = parts.pop();
  const events = [];
  for (const part of parts) {
    const event = { id: null, event: "message", data: [] };
    for (const line of part.split(/\r?\n/)) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue;
      const value = line.slice(colon + 1).replace(/^ /, "");
      const field = line.slice(0, colon);
      if (field === "data") event.data.push(value);
      else if (field in event) event[field] = value;
    }
    if (event.data.length) events.push({ ...event, data: event.data.join("\n") });
  }
  return { events, rest };
}

const SILENCE_MS = 45_000;
const FIRST_DELAY_MS = 400;
const LONGEST_DELAY_MS = 8_000;
const FINAL = new Set([400, 401, 403, 404, 410]);

/**
 * Follow an event stream until `close()`. `onEvent(data)` gets each event; `onState(state)` gets
 * `{state: "connecting" | "open" | "lost" | "refused", problem}` whenever the connection changes. `begun` is a
 * stream that is open already.
 */
export function follow(path, { onEvent, onState = () => {}, after = null, begun = null }) {
  let last = after;
  let stream = begun;
  let delay = FIRST_DELAY_MS;
  let closed = false;
  let abort = null;
  const leave = () => {
    abort?.abort();
    stream?.close();
  };
  let wake = null;

  const pause = (ms) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  const hurry = () => {
    if (document.visibilityState === "visible") wake?.();
  };
  // A stream to elsewhere may stand still for long before anybody notices; one to this machine goes on.
  const probe = () => fetch(`${ROOT}manifest.webmanifest`, { method: "HEAD", cache: "no-store" }).catch(leave);
  addEventListener("online", hurry);
  addEventListener("offline", probe);
  document.addEventListener("visibilitychange", hurry);

  async function opened() {
    abort = new AbortController();
    const headers = {
      accept: "text/event-stream",
      ...(last === null ? {} : { "last-event-id": String(last) }),
    };
    return new Stream(
      await answered(`${ROOT}api${path}`, { headers, signal: abort.signal, cache: "no-store" }),
    );
  }

  async function read() {
    let timer = setTimeout(leave, SILENCE_MS);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(leave, SILENCE_MS);
    };
    try {
      stream ??= await opened();
      onState({ state: "open" });
      delay = FIRST_DELAY_MS;
      for (let event; (event = await stream.next(alive)); ) {
        if (closed) return;
        if (event.id !== null) last = event.id;
        onEvent(JSON.parse(event.data));
      }
    } finally {
      stream = null;
      clearTimeout(timer);
    }
  }

  async function run() {
    onState({ state: "connecting" });
    while (!closed) {
      let problem = new Problem(0, UNREACHABLE);
      try {
        await read();
      } catch (cause) {
        if (cause instanceof Problem) problem = cause;
        else if (!(cause instanceof TypeError) && cause.name !== "AbortError") console.error(cause);
      }
      if (closed) break;
      if (FINAL.has(problem.status)) {
        onState({ state: "refused", problem });
        break;
      }
      onState({ state: "lost", problem });
      await pause(delay * (0.75 + Math.random() / 2));
      delay = Math.min(delay * 2, LONGEST_DELAY_MS);
    }
  }
  run();

  return {
    close() {
      closed = true;
      removeEventListener("online", hurry);
      removeEventListener("offline", probe);
      document.removeEventListener("visibilitychange", hurry);
      leave();
      wake?.();
    },
  };
}

/**
 * Follow a stream in one tab and broadcast it to the others: a browser allows six connections to one server, so
 * not every tab can have its own. When the tab that follows is closed, the next one takes over.
 */
export function followOnce(path, name, { onEvent, onState }) {
  if (!navigator.locks || !globalThis.BroadcastChannel) return follow(path, { onEvent, onState });
  const channel = new BroadcastChannel(name);
  const broadcast = (kind, value) => channel.postMessage({ kind, value });
  let following = null;
  let connection = null;
  channel.onmessage = ({ data }) => {
    if (data.kind === "event") onEvent(data.value);
    else if (data.kind === "state") onState(data.value);
    else if (connection) broadcast("state", connection);
  };
  broadcast("asks", null);
  const leaving = new AbortController();
  navigator.locks
    .request(name, { signal: leaving.signal }, () => {
      following = follow(path, {
        onEvent(value) {
          onEvent(value);
          broadcast("event", value);
        },
        onState({ state, problem }) {
          connection = { state };
          onState({ state, problem });
          broadcast("state", connection);
        },
      });
      return new Promise((release) => leaving.signal.addEventListener("abort", release));
    })
    .catch(() => {});
  return {
    close() {
      leaving.abort();
      following?.close();
      channel.close();
    },
  };
}
