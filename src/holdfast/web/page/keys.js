// Owns the keys of the whole page. The same list is what `help.js` shows. A key without Ctrl or Alt counts only
// where nobody is writing.

export const KEYS = [
  { keys: ["?"], told: "Show this list", run: (page) => page.help() },
  { keys: ["n"], told: "New chat", run: (page) => page.newChat() },
  { keys: ["/", "Ctrl+k"], told: "Search all conversations", run: (page) => search(page) },
  { keys: ["i"], told: "Write a message", run: (page) => page.focusComposer() },
  { keys: ["j"], told: "Next conversation", run: (page) => beside(page, 1) },
  { keys: ["k"], told: "Previous conversation", run: (page) => beside(page, -1) },
  { keys: ["w"], told: "Go to what waits for you", run: (page) => toAsk(page) },
  {
    keys: ["c"],
    told: "Context: what fills the window",
    run: (page) => page.session && page.show("context"),
  },
  { keys: ["m"], told: "Memory", run: (page) => page.show("memory") },
  { keys: ["t"], told: "Timeline of the last turn", run: (page) => lastTurn(page) },
  {
    keys: ["r"],
    told: "Regenerate the last answer",
    run: (page) => page.session?.state.state === "idle" && page.regenerate(),
  },
  { keys: ["e"], told: "Edit the last message", run: (page) => editLast(page) },
  { keys: ["Ctrl+."], told: "Stop the running turn", run: (page) => page.stop() },
  { keys: ["Escape"], told: "Close what is open; leave the text", run: (page) => escape(page) },
];

/** Keys that belong to one place; listed for people, handled there. */
export const OTHERS = [
  { keys: ["Enter"], told: "Send" },
  { keys: ["Shift+Enter"], told: "A new line" },
  { keys: ["Ctrl+Enter"], told: "Send as a steer while a turn runs" },
  { keys: ["Alt+1", "Alt+2", "Alt+3"], told: "Queue, steer or interrupt" },
  { keys: ["y", "n", "a"], told: "Allow, refuse or always allow, on an approval of what can be undone" },
  { keys: ["↑", "↓"], told: "Move through the list of conversations" },
];

export function onKey(event, page) {
  // The browser's word: a dialog that is closed is heard of only after the next key.
  if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
  const writing = event.target.closest?.("input, textarea, select, [contenteditable]");
  const control = event.ctrlKey || event.metaKey;
  const pressed = `${control ? "Ctrl+" : ""}${event.key.length === 1 && control ? event.key.toLowerCase() : event.key}`;
  if (event.altKey || (writing && !control && event.key !== "Escape")) return;
  const found = KEYS.find((each) => each.keys.includes(pressed));
  if (!found) return;
  event.preventDefault();
  found.run(page);
}

function search(page) {
  page.sideOpen = true;
  page.draw();
  requestAnimationFrame(() => document.getElementById("search")?.focus());
}

function beside(page, step) {
  const { items } = page.list;
  const place = items.findIndex(
    (each) => each.root_id === page.session?.state.rootId || each.id === page.session?.id,
  );
  const next = items[Math.min(items.length - 1, Math.max(0, place + step))];
  if (next) page.go(next.id);
}

function toAsk(page) {
  const card = document.querySelector(".card.ask");
  if (card) return card.focus();
  const [next] = page.list.needing;
  return next && page.go(next.id);
}

const lastOf = (page, role) =>
  page.session?.state.items.findLast((item) => item.turn_id && (!role || item.message.role === role));

function lastTurn(page) {
  const item = lastOf(page);
  if (item) page.show("timeline", { turnId: item.turn_id });
}

function editLast(page) {
  const item = lastOf(page, "user");
  if (item && page.session.state.state === "idle" && item.session_id === page.session.state.sessionId)
    page.edit(item);
}

function escape(page) {
  if (page.menu) return page.closeMenu();
  if (page.panel) return page.closePanel();
  if (page.sideOpen) {
    page.sideOpen = false;
    return page.draw();
  }
  return document.activeElement?.blur();
}
