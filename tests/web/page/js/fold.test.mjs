// The fold of `fold.js`: replays, duplicates, gaps, snapshots, and the way of a turn from stream to store.
import assert from "node:assert/strict";
import test from "node:test";

const { blank, fold } = await import(new URL("fold.js", process.env.HOLDFAST_PAGE));
const { visible } = await import(new URL("visible.js", process.env.HOLDFAST_PAGE));

const at = 1_700_000_000_000;
const T = { session_id: "s", turn_id: "t1", at };
const numbered = (events, first = 1) => events.map((event, place) => ({ ...event, number: first + place }));
const run = (events, state = blank("s")) => events.reduce(fold, state);
const texts = (state) => visible(state).map((item) => `${item.message.role}: ${item.message.content}`);

const snapshot = { kind: "SessionSnapshot", session_id: "s", number: 0, turn_id: "", said: "", text: "", reasoning: "", tools: [], waiting: 0 };
const TURN = numbered([
  { kind: "TurnStarted", ...T, inbox_id: 7, text: "hello" },
  { kind: "ReasoningDelta", ...T, text: "hm" },
  { kind: "TextDelta", ...T, text: "I " },
  { kind: "TextDelta", ...T, text: "look." },
  { kind: "StepFinished", ...T, step: 1, context: 10, window: 100 },
  { kind: "ToolStarted", ...T, call_id: "c1", name: "terminal", arguments: '{"command":"ls"}' },
  { kind: "ToolOutput", ...T, call_id: "c1", text: "a\n" },
  { kind: "ToolFinished", ...T, call_id: "c1", name: "terminal", ok: true, output: "a" },
  { kind: "TextDelta", ...T, text: "Done." },
  { kind: "StepFinished", ...T, step: 2, context: 20, window: 100 },
  { kind: "TurnCompleted", ...T, final_response: "Done." },
]);
const STORED = [
  { role: "user", content: "hello" },
  { role: "assistant", content: "I look.", tool_calls: [{ id: "c1", function: { name: "terminal", arguments: "{}" } }] },
  { role: "tool", tool_call_id: "c1", content: "a" },
  { role: "assistant", content: "Done." },
].map((message, seq) => ({ session_id: "s", seq, turn_id: "t1", at, carried: false, message }));
const WHOLE = ["user: hello", "assistant: I look.", "tool: a", "assistant: Done."];

test("a turn that goes on after a crash leaves no card and runs, with what is stored loaded again", () => {
  const cut = run([{ kind: "TurnUnfinished", ...T, text: "hello", open_calls: [], number: 1 }]);
  const waiting = { ...cut, unfinished: { turn_id: T.turn_id, said: "hello" } };
  const on = run([{ kind: "TurnResumed", ...T, text: "hello", number: 2 }], waiting);
  assert.equal(on.unfinished, null);
  assert.equal(on.state, "running");
  assert.equal(on.live.turnId, T.turn_id);
  assert.ok(on.stale > cut.stale);
});

test("a turn is shown as it streams", () => {
  assert.deepEqual(texts(run([snapshot, ...TURN])), WHOLE);
  const half = run([snapshot, ...TURN.slice(0, 4)]);
  assert.equal(half.state, "running");
  assert.equal(half.live.items.at(-1).message.holdfast.reasoning, "hm");
});

test("events that come twice change nothing", () => {
  const state = run([snapshot, ...TURN.slice(0, 8)]);
  for (const event of TURN.slice(0, 8)) assert.equal(fold(state, event), state);
  assert.deepEqual(texts(run([snapshot, ...TURN.slice(0, 6), ...TURN.slice(2)])), WHOLE);
});

test("any split of a replay gives the same view", () => {
  for (let cut = 0; cut <= TURN.length; cut += 1) {
    const again = Math.max(0, cut - 3);
    const state = run([snapshot, ...TURN.slice(0, cut), ...TURN.slice(again)]);
    assert.deepEqual(texts(state), WHOLE, `cut at ${cut}`);
  }
});

test("a gap asks for what is stored", () => {
  const before = run([snapshot, ...TURN.slice(0, 2)]);
  const after = fold(before, TURN[4]);
  assert.equal(after.stale, before.stale + 1);
});

test("what was stored takes the place of what was streamed, under the same keys", () => {
  const streamed = run([snapshot, ...TURN]);
  const loaded = fold(streamed, { kind: "page.tail", items: STORED, hasBefore: false, asOf: streamed.stale, fresh: false });
  assert.deepEqual(texts(loaded), WHOLE);
  assert.deepEqual(visible(loaded).map((item) => item.key), visible(streamed).map((item) => item.key));
  assert.equal(loaded.past.length, 0);
});

test("a load that began before the turn ended does not take it away", () => {
  const early = run([snapshot, ...TURN.slice(0, 10)]);
  const ended = fold(early, TURN[10]);
  const loaded = fold(ended, { kind: "page.tail", items: STORED.slice(0, 1), hasBefore: false, asOf: early.stale, fresh: false });
  assert.deepEqual(texts(loaded), WHOLE);
});

test("a turn that follows at once does not hide the one before it", () => {
  const next = { kind: "TurnStarted", ...T, turn_id: "t2", inbox_id: 8, text: "and now?", number: 12 };
  assert.deepEqual(texts(run([snapshot, ...TURN, next])), [...WHOLE, "user: and now?"]);
});

test("a page that comes late shows the stored steps and the partial answer once", () => {
  const late = { ...snapshot, number: 9, turn_id: "t1", said: "hello", text: "Do", at };
  let state = run([late]);
  state = fold(state, { kind: "page.tail", items: STORED.slice(0, 3), hasBefore: false, asOf: state.stale, fresh: true });
  assert.deepEqual(texts(state), ["user: hello", "assistant: I look.", "tool: a", "assistant: Do"]);
  state = run([{ kind: "TextDelta", ...T, text: "ne.", number: 10 }, { ...TURN[9], number: 11 }], state);
  assert.deepEqual(texts(state), WHOLE);
  const raced = fold(state, { kind: "page.tail", items: STORED, hasBefore: false, asOf: state.stale, fresh: false });
  assert.deepEqual(texts(raced), WHOLE);
});

test("a server that was killed leaves what was streamed until the store is loaded", () => {
  const cut = run([snapshot, ...TURN.slice(0, 4)]);
  const back = fold(cut, { ...snapshot, number: 5_000 });
  assert.deepEqual(texts(back), ["user: hello", "assistant: I look."]);
  assert.equal(back.live, null);
  assert.ok(back.stale > cut.stale);
  const unfinished = { turn_id: "t1", said: "hello", finished_calls: 0, open_calls: [], partial: "I " };
  const loaded = run([
    { kind: "page.tail", items: STORED.slice(0, 1), hasBefore: false, asOf: back.stale, fresh: false },
    { kind: "page.detail", at, detail: { id: "s", root_id: "s", waiting_messages: [], asks: [], lineage: [], unfinished, state: "unfinished" } },
  ], back);
  assert.deepEqual(texts(loaded), ["user: hello"]);
  assert.equal(loaded.unfinished.partial, "I look.", "what this page has seen of it is more than what was stored");
});

test("a page that comes after a turn failed shows what a page that was there shows", () => {
  const detail = { id: "s", root_id: "s", waiting_messages: [], asks: [], lineage: [], unfinished: null, state: "idle", failed: { turn_id: "t1", error: "no key" } };
  const there = run([snapshot, TURN[0], { kind: "TurnFailed", ...T, error: "no key", failure: "Refused", number: 2 }]);
  const late = run([snapshot, { kind: "page.detail", at, detail }]);
  assert.deepEqual(late.last, there.last);
  assert.deepEqual(fold(there, { kind: "page.detail", at, detail }).last, there.last);
  const dismissed = fold(late, { kind: "page.seen" });
  assert.equal(fold(dismissed, { kind: "page.detail", at, detail }).last, null, "what was dismissed stays so");
  const message = { role: "user", content: "again" };
  const sent = fold(late, { kind: "page.sent", inbox_id: 8, mode: "queue", message, at });
  assert.equal(fold(sent, { kind: "page.detail", at, detail }).last, null, "a person who went on has seen it");
  const begun = run([snapshot]);
  const since = fold(begun, { kind: "page.sent", inbox_id: 8, mode: "queue", message, at });
  assert.equal(fold(since, { kind: "page.detail", at, begun, detail }).last, null, "what was read is older than what was sent");
  const running = run([snapshot, { ...TURN[0], turn_id: "t2" }]);
  assert.equal(fold(running, { kind: "page.detail", at, detail }).last, null);
});

test("a waiting message that was taken meanwhile is not shown as waiting again", () => {
  const message = { role: "user", content: "hello" };
  let state = run([snapshot, { kind: "page.sent", inbox_id: 7, mode: "queue", message, at }]);
  assert.equal(state.waiting.length, 1);
  state = run(TURN.slice(0, 1), state);
  assert.equal(state.waiting.length, 0);
  const late = { id: "s", root_id: "s", asks: [], lineage: [], unfinished: null, state: "running", waiting_messages: [{ inbox_id: 7, mode: "queue", message, at }] };
  assert.equal(fold(state, { kind: "page.detail", at, detail: late }).waiting.length, 0);
  assert.equal(fold(state, { kind: "page.sent", inbox_id: 7, mode: "queue", message, at }).waiting.length, 0);
});

test("a message that another tab sent is fetched", () => {
  const before = run([snapshot]);
  assert.equal(fold(before, { kind: "MessageAccepted", session_id: "s", inbox_id: 3, mode: "queue", number: 1 }).stale, before.stale + 1);
});

test("an ask is shown until it is closed, and never again", () => {
  const ask = { kind: "ApprovalAsked", ...T, ask_id: "a1", call_id: "c1", subject: "rm x", subject_kind: "command", reason: "", destructive: true, seconds: 60, number: 2 };
  let state = run([snapshot, TURN[0], ask]);
  assert.equal(state.asks[0].until, at + 60_000);
  state = fold(state, { kind: "AskClosed", ...T, ask_id: "a1", outcome: "allowed", number: 3 });
  assert.equal(state.asks.length, 0);
  const detail = { id: "s", root_id: "s", waiting_messages: [], lineage: [], unfinished: null, state: "running", asks: [{ ...ask, kind: "approval", seconds_left: 50 }] };
  assert.equal(fold(state, { kind: "page.detail", at, detail }).asks.length, 0);
});

test("an answer that is asked for anew stays marked as void", () => {
  const retry = { kind: "ModelRetrying", ...T, attempt: 1, delay: 2, problem: "broken", partial: true, number: 5 };
  const state = run([snapshot, ...TURN.slice(0, 4), retry, { kind: "TextDelta", ...T, text: "Anew", number: 6 }]);
  const answers = visible(state).filter((item) => item.message.role === "assistant");
  assert.equal(answers[0].message.holdfast.superseded, "broken");
  assert.equal(answers[1].message.content, "Anew");
});

test("paging keeps a bounded window", () => {
  const many = (first, count) => Array.from({ length: count }, (_, place) => ({ session_id: "s", seq: first + place, turn_id: null, at, carried: false, message: { role: "user", content: String(first + place) } }));
  let state = fold(blank("s"), { kind: "page.tail", items: many(4900, 100), hasBefore: true, asOf: 0, fresh: true });
  for (let first = 4800; first >= 4000; first -= 100) state = fold(state, { kind: "page.older", items: many(first, 100), hasBefore: true });
  assert.equal(state.items.length, 600);
  assert.equal(state.items[0].seq, 4000);
  assert.equal(state.hasAfter, true);
  state = fold(state, { kind: "page.newer", items: many(4600, 100), hasAfter: true });
  assert.equal(state.items[0].seq, 4100);
  assert.equal(state.items.at(-1).seq, 4699);
});

test("what a rotation carried over is not shown twice", () => {
  const items = [
    { session_id: "c", seq: 0, turn_id: null, at, carried: false, message: { role: "user", content: "summary", holdfast: { summary: true } } },
    { session_id: "c", seq: 1, turn_id: "t1", at, carried: true, message: { role: "user", content: "hello" } },
    { session_id: "c", seq: 2, turn_id: "t2", at, carried: false, message: { role: "user", content: "next" } },
  ];
  const state = fold({ ...blank("c"), lineage: [{ id: "p" }, { id: "c" }] }, { kind: "page.tail", items, hasBefore: true, asOf: 0, fresh: true });
  assert.deepEqual(texts(state), ["user: summary", "user: next"]);
  const branch = fold(blank("c"), { kind: "page.tail", items, hasBefore: false, asOf: 0, fresh: true });
  assert.deepEqual(texts(branch), ["user: summary", "user: hello", "user: next"], "a branch has the only copy");
});

test("a compaction between turns is no turn", () => {
  const begun = run([snapshot, { kind: "CompactionStarted", session_id: "s", turn_id: "", tokens: 9, number: 1 }]);
  assert.equal(begun.live, null);
  assert.equal(begun.compacting, true);
  const done = fold(begun, { kind: "CompactionFinished", session_id: "s", turn_id: "", outcome: "9 to 3 tokens", tokens_before: 9, tokens_after: 3, number: 2 });
  assert.equal(done.compacting, false);
  assert.equal(done.said, "9 to 3 tokens");
  assert.ok(done.stale > begun.stale);
});

test("a call that the store knows already is not shown twice to a page that comes in mid-call", () => {
  const late = { ...snapshot, number: 5, turn_id: "t1", said: "hello", at };
  let state = run([late, { ...TURN[5], number: 6 }]);
  state = fold(state, { kind: "page.tail", items: STORED.slice(0, 2), hasBefore: false, asOf: state.stale, fresh: true });
  assert.deepEqual(texts(state), ["user: hello", "assistant: I look."]);
  state = fold(state, { ...TURN[7], number: 7 });
  assert.deepEqual(texts(state), ["user: hello", "assistant: I look.", "tool: a"]);
});

test("events that come while the status is being read are not lost", () => {
  const ask = { kind: "ApprovalAsked", ...T, ask_id: "a1", call_id: "c1", subject: "rm x", subject_kind: "command", reason: "", destructive: false, seconds: 60, number: 2 };
  const begun = run([snapshot, TURN[0]]);
  const since = run([ask, { kind: "page.sent", inbox_id: 9, mode: "queue", message: { role: "user", content: "later" }, at }], begun);
  const detail = { id: "s", root_id: "s", waiting_messages: [], asks: [], lineage: [], unfinished: null, state: "running" };
  const read = fold(since, { kind: "page.detail", at, begun, detail });
  assert.equal(read.asks.length, 1);
  assert.equal(read.waiting.length, 1);
  const again = fold(read, { kind: "page.detail", at, begun: read, detail });
  assert.equal(again.asks.length, 0, "a later reading knows better");
  const changed = fold(since, { kind: "page.changed", inbox_id: 9, mode: "steer", message: { role: "user", content: "sooner" } });
  const older = { ...detail, waiting_messages: [{ inbox_id: 9, mode: "queue", message: { role: "user", content: "later" }, at }] };
  assert.equal(fold(changed, { kind: "page.detail", at, begun: since, detail: older }).waiting[0].mode, "steer");
  const taken = fold(since, { kind: "page.withdrawn", inbox_id: 9 });
  assert.equal(fold(taken, { kind: "page.detail", at, begun: since, detail: older }).waiting.length, 0);
  const moved = fold(begun, { kind: "SessionRotated", ...T, child_id: "child", number: 2 });
  assert.equal(fold(moved, { kind: "page.detail", at, begun, detail }).sessionId, "child");
});

test("waiting messages stand in the order in which they run, whatever came first to the page", () => {
  const sent = (inbox_id, content, mode = "queue") => ({ kind: "page.sent", inbox_id, mode, message: { role: "user", content }, at });
  const order = (state) => state.waiting.map((each) => each.message.content);
  const begun = run([snapshot, TURN[0], sent(9, "second"), sent(8, "first")]);
  assert.deepEqual(order(begun), ["first", "second"]);
  const changed = fold(begun, { kind: "page.changed", inbox_id: 8, mode: "queue", message: { role: "user", content: "better" } });
  const waiting_messages = begun.waiting;
  const detail = { id: "s", root_id: "s", waiting_messages, asks: [], lineage: [], unfinished: null, state: "running" };
  const read = fold(changed, { kind: "page.detail", at, begun, detail });
  assert.deepEqual(order(read), ["better", "second"], "an older reading moves nothing");
  assert.deepEqual(order(fold(read, sent(10, "now", "interrupt"))), ["now", "better", "second"]);
});
