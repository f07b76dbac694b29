// The list of `list.js`: a change of a conversation is newer than a read that was under way.
import assert from "node:assert/strict";
import test from "node:test";

const { SessionList, grouped, nameWithScope, whereLives } = await import(new URL("list.js", process.env.HOLDFAST_PAGE));

const session = (id, more = {}) => ({ id, root_id: id, title: null, opening: "", pinned: false, archived: false, last_active: 1, state: "idle", waiting: 0, asking: 0, ...more });
const change = (id, more = {}) => ({ root_id: id, session_id: id, state: "running", waiting: 0, asking: 0, title: null, pinned: false, archived: false, deleted: false, ...more });

function listed() {
  const answers = [];
  globalThis.fetch = (path) => new Promise((resolve) => answers.push({ path, give: (body) => resolve({ ok: true, status: 200, json: async () => body }) }));
  return { list: new SessionList({ changed: () => {}, connected: () => {} }), answers };
}
const settle = () => new Promise((resolve) => setImmediate(resolve));

test("a late reading does not take away what is known by now", async () => {
  const { list, answers } = listed();
  list._onChange(change("a"));
  list.put(session("a", { opening: "hello", state: "running" }));
  list._onChange(change("a", { state: "idle", asking: 1 }));
  answers[0].give(session("a", { state: "running" }));
  await settle();
  assert.equal(list.byId("a").opening, "hello");
  assert.equal(list.byId("a").state, "idle");
  assert.equal(list.needing.length, 1);
});

test("a conversation that was read too early is read again", async () => {
  const { list, answers } = listed();
  list._onChange(change("a"));
  list._onChange(change("a", { state: "idle" }));
  answers[0].give(session("a"));
  await settle();
  answers[1].give(session("a", { opening: "hello" }));
  await settle();
  assert.equal(list.byId("a").opening, "hello");
  assert.equal(answers.length, 2);
});

test("a deleted conversation is gone, pinned ones stand first, then by date", () => {
  const { list } = listed();
  const now = new Date(2026, 4, 20, 12).getTime();
  list.put(session("old", { last_active: now - 90 * 86_400_000, title: "old" }));
  list.put(session("new", { last_active: now - 1000, title: "new" }));
  list.put(session("pin", { last_active: now - 40 * 86_400_000, title: "pin", pinned: true }));
  list.put(session("gone", { last_active: now, title: "gone" }));
  list._onChange(change("gone", { deleted: true }));
  const rows = grouped(list.items, now).map((row) => row.heading ?? row.session.id);
  assert.deepEqual([rows[0], rows[1], rows[2], rows[3], rows[5]], ["Pinned", "pin", "Today", "new", "old"]);
});

test("whose conversation it is is said by the name that people know", () => {
  const place = { account: "telegram", platform: "telegram", is_direct: true, person: "Ada", title: "", thread: "" };
  const said = { opening: "ahoy", scope: "telegram/1001" };
  assert.equal(nameWithScope({ ...said, chats: [place] }), "Ada: ahoy");
  assert.equal(nameWithScope({ ...said, chats: [{ ...place, is_direct: false, title: "The crew" }] }), "The crew: ahoy");
  assert.equal(nameWithScope(said), "telegram/1001: ahoy");
  assert.equal(nameWithScope({ opening: "ahoy", scope: "", chats: [place] }), "ahoy");
});

test("a conversation says where it lives on chat platforms", () => {
  const direct = { account: "telegram", platform: "telegram", is_direct: true, person: "Ada", title: "", thread: "" };
  const group = { ...direct, is_direct: false, title: "The crew" };
  assert.equal(whereLives({ chats: [direct] }), "in Telegram, with Ada");
  assert.equal(whereLives({ chats: [{ ...direct, person: "" }] }), "in Telegram");
  assert.equal(whereLives({ chats: [group] }), "in Telegram, in The crew");
  assert.equal(whereLives({ chats: [{ ...group, thread: "7" }] }), "in Telegram, in a thread of The crew");
  assert.equal(whereLives({ chats: [{ ...group, title: "" }] }), "in Telegram, in a group");
  const work = { ...direct, account: "work", platform: "slack" };
  assert.equal(whereLives({ chats: [direct, work] }), "in Telegram, with Ada; in Slack (work), with Ada");
  assert.equal(whereLives({ chats: [{ ...work, platform: "" }] }), "in Work, with Ada", "an account that is set up elsewhere");
  assert.equal(whereLives({ chats: [] }), "");
  assert.equal(whereLives({}), "", "a conversation that has just begun");
});
