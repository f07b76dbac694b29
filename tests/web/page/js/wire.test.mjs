// The pure part of `wire.js`: reading an event stream however it is cut into pieces.
import assert from "node:assert/strict";
import test from "node:test";

const { Problem, parseEvents, query } = await import(new URL("wire.js", process.env.HOLDFAST_PAGE));

const STREAM = 'retry: 1000\n\n: ping\n\nid: 7\nevent: TextDelta\ndata: {"a":1}\n\nid: 8\ndata: two\ndata: lines\n\n';

test("events are read whole, comments and settings are passed over", () => {
  const { events, rest } = parseEvents(STREAM);
  assert.equal(rest, "");
  assert.deepEqual(events, [
    { id: "7", event: "TextDelta", data: '{"a":1}' },
    { id: "8", event: "message", data: "two\nlines" },
  ]);
});

test("any cut of the stream gives the same events", () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const first = parseEvents(STREAM.slice(0, cut));
    const second = parseEvents(first.rest + STREAM.slice(cut));
    assert.deepEqual([...first.events, ...second.events], parseEvents(STREAM).events, `cut at ${cut}`);
  }
});

test("a problem carries what to do next", () => {
  const problem = new Problem(409, { detail: "It runs.", reason: "TurnAlreadyRunning", next: "Stop it first." });
  assert.equal(problem.message, "It runs.");
  assert.equal(problem.next, "Stop it first.");
});

test("parameters that are not given are left out", () => {
  assert.equal(query({ after: 0, before: undefined, q: "", limit: 5 }), "?after=0&limit=5");
  assert.equal(query({}), "");
});
