// Owns the state of one open conversation: `fold(state, event)` takes in an event of the server or an action
// of the page (`page.…`) and returns the next state. `visible.js` says what is shown of it. Pure: no
// clock, no network, no document. A server's event has a `number`: one that was folded already changes nothing, and
// after a gap `stale` grows, which asks `session.js` to load what is stored anew.

import {
  OUTPUT_KEPT,
  closedAnswer,
  longest,
  note,
  ofTool,
  retrying,
  said,
  afterWaiting,
  stepFinished,
  toolFinished,
  toolStarted,
  turn,
  unstored,
  withAnswer,
} from "./turn.js";

// The server sends pieces that wait together as one, under the number of the last of them.
const PIECES = new Set(["TextDelta", "ReasoningDelta", "ToolOutput"]);
export const ITEMS_KEPT = 600;

export const blank = (sessionId = null) => ({
  sessionId,
  rootId: null,
  title: "",
  opening: "",
  chats: [], // where it lives on chat platforms
  branchOf: null, // of a branch: the title of the conversation that it left
  branchFrom: null, // and a session of it
  number: null,
  state: "idle",
  items: [], // stored messages, oldest first: {session_id, seq, turn_id, at, carried, message}
  hasBefore: false,
  hasAfter: false,
  loaded: false,
  past: [], // turns that ended here and are not loaded from the store yet
  live: null, // the running turn
  seen: null, // what had come of an answer that was cut off: {turnId, text}
  last: null, // how the last turn ended: {turnId, how, reason}
  settled: null, // the failed turn that a person has seen and gone on from
  waiting: [],
  taken: {},
  asks: [],
  closed: {},
  unfinished: null,
  trouble: "",
  said: "", // the outcome of a command between turns
  compacting: false,
  elsewhere: false,
  context: 0,
  window: 0,
  lineage: [],
  changedTurns: [], // ids of the turns whose changes of files are on record
  recalled: {}, // by turn
  stale: 0,
});

export function fold(state, event) {
  if (event.kind.startsWith("page.")) return PAGE[event.kind](state, event);
  const snapshot = event.kind === "SessionSnapshot";
  if (!snapshot && state.number !== null && event.number <= state.number) return state;
  const gap =
    !snapshot && !PIECES.has(event.kind) && state.number !== null && event.number > state.number + 1;
  const next = (SERVER[event.kind] ?? ((same) => same))(state, event);
  return { ...next, number: event.number, stale: next.stale + (gap ? 1 : 0) };
}

function inTurn(change) {
  return (state, event) => {
    if (!event.turn_id) return state;
    // This page did not see the turn begin: its earlier messages are in the store.
    const known = state.live && state.live.turnId === event.turn_id;
    const live = known ? state.live : turn(event, false);
    const base = known ? state : { ...state, live, state: "running", stale: state.stale + 1 };
    return { ...base, live: change(live, event, base) };
  };
}

/** Waiting messages in the order in which they run, whatever came first here. */
const inOrder = (waiting) =>
  [...waiting].sort((a, b) => interrupts(b) - interrupts(a) || a.inbox_id - b.inbox_id);
const interrupts = (each) => Number(each.mode === "interrupt");
const without = (waiting, inboxId) => waiting.filter((each) => each.inbox_id !== inboxId);

function ended(how) {
  return (state, event) => {
    const stale = state.stale + 1;
    const known = state.live?.turnId === event.turn_id ? state.live : null;
    const past = known
      ? [...state.past, { ...known, items: closedAnswer(known.items), ended: how, staleAt: stale }]
      : state.past;
    return {
      ...state,
      past,
      live: known ? null : state.live,
      last: { turnId: event.turn_id, how, reason: event.reason ?? event.error ?? "" },
      asks: state.asks.filter((ask) => ask.turn_id !== event.turn_id),
      state: "idle",
      stale,
    };
  };
}

function asked(kind) {
  return (state, event) => {
    if (state.closed[event.ask_id] || state.asks.some((ask) => ask.ask_id === event.ask_id)) return state;
    const until = event.at && event.seconds ? event.at + event.seconds * 1000 : null;
    return { ...state, asks: [...state.asks, { ...event, kind, until }] };
  };
}

function askClosed(state, { ask_id, outcome }) {
  const known = state.asks.find((ask) => ask.ask_id === ask_id) ?? state.closed[ask_id];
  const asks = state.asks.filter((ask) => ask.ask_id !== ask_id);
  // When it was asked, and by which call, is kept: the event that closes it may come after the person's answer.
  return { ...state, asks, closed: { ...state.closed, [ask_id]: { outcome, at: known?.at, call_id: known?.call_id } } };
}

function lost(state, turnId) {
  if (!state.live || state.live.turnId !== turnId) return state;
  const gone = {
    ...state.live,
    items: closedAnswer(state.live.items),
    ended: "lost",
    staleAt: state.stale + 1,
  };
  const words = longest(unstored(state.live), state.seen?.turnId === turnId ? state.seen.text : "");
  return {
    ...state,
    live: null,
    past: [...state.past, gone],
    seen: { turnId, text: words },
    state: "unfinished",
  };
}

function snapshot(state, event) {
  // Events were missed; the store has what they changed, so it is loaded again.
  const stale = state.stale + 1;
  if (!event.turn_id) return { ...lost(state, state.live?.turnId), state: "idle", compacting: false, stale };
  const live = turn(event, false);
  live.began = null;
  if (event.text || event.reasoning) {
    const message = { role: "assistant", content: event.text };
    if (event.reasoning) message.holdfast = { reasoning: event.reasoning };
    live.items = [{ at: event.at, open: true, message }];
  }
  live.doing = event.tools?.at(-1) ?? (event.text ? "answering" : "thinking");
  const other = state.live?.turnId === event.turn_id ? state : lost(state, state.live?.turnId);
  return { ...other, live, state: "running", stale };
}

const SERVER = {
  SessionSnapshot: snapshot,
  MessageAccepted: (state, event) =>
    state.taken[event.inbox_id] || state.waiting.some((each) => each.inbox_id === event.inbox_id)
      ? state
      : { ...state, stale: state.stale + 1 },
  SessionMoved: (state, event) => ({ ...state, elsewhere: event.elsewhere, stale: state.stale + 1 }),
  SessionTrouble: (state, event) => ({ ...state, trouble: event.error }),
  TurnStarted: (state, event) => ({
    ...state,
    past: lost(state, state.live?.turnId).past,
    live: {
      ...turn(event, true),
      items: [
        said(event.text, {
          at: event.at,
          inboxId: event.inbox_id,
          full: state.waiting.find((each) => each.inbox_id === event.inbox_id)?.message,
        }),
      ],
    },
    stale: state.live ? state.stale + 1 : state.stale,
    waiting: without(state.waiting, event.inbox_id),
    taken: { ...state.taken, [event.inbox_id]: true },
    unfinished: null,
    trouble: "",
    said: "",
    last: null,
    state: "running",
  }),
  // The turn goes on from the store; the model is asked again for an answer that was cut off.
  TurnResumed: (state, event) => ({
    ...snapshot(state, { ...event, text: "", reasoning: "", tools: [] }),
    unfinished: null,
    trouble: "",
    last: null,
  }),
  TurnUnfinished: (state, event) => ({ ...lost(state, event.turn_id), stale: state.stale + 1 }),
  TextDelta: inTurn((live, event) => ({
    ...withAnswer(live, event.at, (message) => ({
      ...message,
      content: (message.content ?? "") + event.text,
    })),
    doing: "answering",
  })),
  ReasoningDelta: inTurn((live, event) => ({
    ...withAnswer(live, event.at, (message) => ({
      ...message,
      holdfast: { ...message.holdfast, reasoning: (message.holdfast?.reasoning ?? "") + event.text },
    })),
    doing: "reasoning",
  })),
  StepFinished: (state, event) => ({
    ...inTurn(stepFinished)(state, event),
    context: event.context,
    window: event.window || state.window,
  }),
  ToolStarted: inTurn(toolStarted),
  ToolOutput: inTurn(
    ofTool((tool, event) => ({ ...tool, output: (tool.output + event.text).slice(-OUTPUT_KEPT) })),
  ),
  ToolFinished: inTurn(toolFinished),
  DelegateStarted: inTurn(
    ofTool((tool, event) => ({
      ...tool,
      tasks: [...tool.tasks, { id: event.child_session_id, task: event.task, ok: null }],
    })),
  ),
  DelegateFinished: inTurn(
    ofTool((tool, event) => ({
      ...tool,
      tasks: tool.tasks.map((each) =>
        each.id === event.child_session_id ? { ...each, ok: event.ok } : each,
      ),
    })),
  ),
  ApprovalAsked: asked("approval"),
  QuestionAsked: asked("question"),
  AskClosed: (state, event) => ({
    ...askClosed(state, { ...event, outcome: event.outcome || "closed" }),
    live: afterWaiting(state.live, state.asks.find((ask) => ask.ask_id === event.ask_id) ?? state.closed[event.ask_id], event),
  }),
  MessageJoined: (state, event) => ({
    ...inTurn((live) => ({
      ...live,
      items: [...closedAnswer(live.items), said(event.text, { at: event.at, joined: true })],
    }))(state, event),
    waiting: without(state.waiting, event.inbox_id),
    taken: { ...state.taken, [event.inbox_id]: true },
  }),
  ModelRetrying: inTurn(retrying),
  // A person asked for it between turns, so it belongs to no turn.
  CompactionStarted: (state, event) => ({
    ...inTurn((live) => ({ ...live, doing: "compacting" }))(state, event),
    compacting: !event.turn_id,
  }),
  CompactionFinished: (state, event) => ({
    ...inTurn((live) => ({
      ...live,
      doing: "thinking",
      items: [...live.items, note(event.outcome, event.at)],
    }))(state, event),
    context: event.tokens_after || state.context,
    compacting: false,
    said: event.turn_id ? "" : event.outcome,
    stale: state.stale + (event.turn_id ? 0 : 1),
  }),
  Notice: inTurn((live, event) => ({ ...live, items: [...live.items, note(event.text, event.at)] })),
  Recalled: (state, event) => ({ ...state, recalled: { ...state.recalled, [event.turn_id]: event } }),
  SessionRotated: (state, event) => ({ ...state, sessionId: event.child_id }),
  TurnCompleted: ended("completed"),
  TurnInterrupted: ended("interrupted"),
  TurnFailed: ended("failed"),
};

// Actions of the page itself

const place = (item) => `${item.session_id}:${item.seq}`;

function merged(left, right) {
  const known = new Set(left.map(place));
  return [...left, ...right.filter((item) => !known.has(place(item)))];
}

/** The text of a cut-off answer: the store saves it now and then, so this page may have more. */
const partialOf = (state, { turn_id: turnId, partial }) =>
  longest(partial, state.seen?.turnId === turnId ? state.seen.text : "");

/** A loaded list, with what was added or changed here since loading began; `then` is the list at that time. */
function newest(read, now, then, id) {
  const fresh = now.filter((each) => !then.includes(each));
  const known = new Set(fresh.map((each) => each[id]));
  return [...read.filter((each) => !known.has(each[id])), ...fresh];
}

/** How the last turn ended, by its event, or by the store when the event was missed. */
function lastOf(state, { failed }, begun) {
  const since = state.live || state.waiting !== begun.waiting || state.last !== begun.last;
  if (since || !failed || failed.turn_id === state.settled || failed.turn_id === state.last?.turnId)
    return state.last;
  return { turnId: failed.turn_id, how: "failed", reason: failed.error };
}

const wentOn = (state) => ({ ...state, last: null, settled: state.last?.turnId ?? state.settled });

const statusOf = (state, detail, at, begun) => ({
  rootId: detail.root_id,
  sessionId: state.sessionId === begun.sessionId ? detail.id : state.sessionId,
  title: detail.title ?? "",
  opening: detail.opening ?? "",
  chats: detail.chats ?? [],
  branchOf: detail.branch_of ?? null,
  branchFrom: detail.branch_from ?? null,
  model: detail.model ?? "",
  workspace: detail.workspace ?? "",
  toolProfile: detail.tool_profile ?? null,
  folder: detail.folder ?? "",
  pinned: detail.pinned,
  archived: detail.archived,
  waiting: inOrder(
    newest(
      detail.waiting_messages.filter((each) => !state.taken[each.inbox_id]),
      state.waiting,
      begun.waiting,
      "inbox_id",
    ),
  ),
  asks: newest(
    detail.asks
      .filter((ask) => !state.closed[ask.ask_id])
      .map((ask) => ({ ...ask, until: at + ask.seconds_left * 1000 })),
    state.asks,
    begun.asks,
    "ask_id",
  ),
  unfinished:
    state.live || !detail.unfinished
      ? null
      : { ...detail.unfinished, partial: partialOf(state, detail.unfinished) },
  last: lastOf(state, detail, begun),
  lineage: detail.lineage,
  changedTurns: detail.changed_turns ?? state.changedTurns,
  context: detail.context_tokens || state.context,
  window: detail.context_window || state.window,
  state: state.live ? "running" : detail.state,
  trouble: state.trouble === begun.trouble ? (detail.trouble ?? "") : state.trouble,
});

const PAGE = {
  // `asOf`: the value of `stale` when loading began; turns that ended before are in the loaded data.
  "page.tail": (state, { items, hasBefore, asOf, fresh }) => ({
    ...state,
    items: fresh || state.hasAfter ? items : merged(state.items, items),
    hasBefore: fresh || state.hasAfter || !state.loaded ? hasBefore : state.hasBefore,
    hasAfter: false,
    loaded: true,
    past: state.past.filter((each) => each.staleAt > asOf),
  }),
  "page.around": (state, { items, hasBefore, hasAfter }) => ({
    ...state,
    items,
    hasBefore,
    hasAfter,
    loaded: true,
  }),
  "page.older": (state, { items, hasBefore }) => {
    const all = merged(items, state.items);
    const cut = all.length > ITEMS_KEPT;
    return {
      ...state,
      items: cut ? all.slice(0, ITEMS_KEPT) : all,
      hasBefore,
      hasAfter: state.hasAfter || cut,
    };
  },
  "page.newer": (state, { items, hasAfter }) => {
    const all = merged(state.items, items);
    const cut = all.length > ITEMS_KEPT;
    return {
      ...state,
      items: cut ? all.slice(-ITEMS_KEPT) : all,
      hasAfter,
      hasBefore: state.hasBefore || cut,
    };
  },
  // `begun`: the state when loading began.
  "page.detail": (before, { detail, at, begun = before }) => {
    const state = detail.unfinished ? lost(before, detail.unfinished.turn_id) : before;
    return { ...state, ...statusOf(state, detail, at, begun) };
  },
  "page.sent": (state, { inbox_id, mode, message, at }) =>
    state.taken[inbox_id] || state.waiting.some((each) => each.inbox_id === inbox_id)
      ? state
      : { ...wentOn(state), waiting: inOrder([...state.waiting, { inbox_id, mode, message, at }]) },
  "page.changed": (state, { inbox_id, message, mode }) => ({
    ...state,
    waiting: inOrder(
      state.waiting.map((each) => (each.inbox_id === inbox_id ? { ...each, message, mode } : each)),
    ),
  }),
  "page.withdrawn": (state, { inbox_id }) => ({
    ...state,
    waiting: without(state.waiting, inbox_id),
    taken: { ...state.taken, [inbox_id]: true },
  }),
  "page.answered": askClosed,
  "page.named": (state, { title }) => ({ ...state, title }),
  "page.reload": (state) => ({ ...state, stale: state.stale + 1 }),
  "page.seen": wentOn,
};
