// Owns the keys of the whole page. The same list is what `help.js` shows. A key without Ctrl or Alt counts only
// where nobody is writing.

export const KEYS = [
  { keys: ["?"], label: "Show this list of keys", run: (page) => page.open("help") },
  { keys: ["Ctrl+k"], label: "Do something: find an action, a conversation, a prompt", run: (page) => page.find(), hidden: true },
  { keys: ["n"], label: "New chat", run: (page) => page.newChat() },
  { keys: ["/"], label: "Search all conversations", run: (page) => search(page) },
  { keys: ["i"], label: "Write a message", run: (page) => page.focusComposer() },
  { keys: ["j"], label: "Next conversation", run: (page) => beside(page, 1) },
  { keys: ["k"], label: "Previous conversation", run: (page) => beside(page, -1) },
  { keys: ["w"], label: "Go to the question that waits for you", run: (page) => toAsk(page) },
  {
    keys: ["c"],
    label: "Context: what fills the window",
    run: (page) => page.session && page.show("context"),
  },
  { keys: ["m"], label: "Memory", run: (page) => page.show("memory") },
  { keys: ["g"], label: "Chats: accounts on chat platforms", owner: true, run: (page) => page.show("chats") },
  { keys: ["a"], label: "Accounts, and the audit log", admin: true, run: (page) => page.show("accounts") },
  { keys: ["l"], label: "Choose a model", run: (page) => page.open("models") },
  { keys: ["o"], label: "Tools: which ones the model is told of", run: (page) => page.open("tools") },
  { keys: ["p"], label: "Prompts of your own", owner: true, run: (page) => page.open("prompts") },
  { keys: ["f"], label: "Workspace and folder of this conversation", owner: true, run: (page) => page.open("place") },
  { keys: ["b"], label: "Folders of the list: rename, change, remove", owner: true, run: (page) => page.open("folders") },
  { keys: ["s"], label: "Settings", owner: true, run: (page) => page.show("settings") },
  { keys: ["u"], label: "Usage: tokens and cost", run: (page) => page.show("usage") },
  { keys: ["d"], label: "Files that this conversation changed", run: (page) => page.session && page.show("changes") },
  { keys: ["z"], label: "Take back the last message, and its files", run: (page) => page.session?.state.state === "idle" && page.open("undo") },
  { keys: ["x"], label: "Export as Markdown", run: (page) => page.session && page.share("exportMarkdown", page.session) },
  { keys: ["h"], label: "Share as one HTML file", run: (page) => page.session && page.share("shareHtml", page.session) },
  { keys: ["Ctrl+p"], label: "Print the whole conversation", run: (page) => page.session && page.share("print", page.session) },
  { keys: ["t"], label: "Timeline of the last turn", run: (page) => lastTurn(page) },
  {
    keys: ["r"],
    label: "Regenerate the last answer",
    run: (page) => page.session?.state.state === "idle" && page.regenerate(),
  },
  { keys: ["e"], label: "Edit the last message", run: (page) => editLast(page) },
  { keys: ["Ctrl+."], label: "Stop the running turn", run: (page) => page.stop() },
  { keys: ["Escape"], label: "Close a panel or menu; keep the text", run: (page) => escape(page) },
];

/** What counts for whom this browser is let in: some is the owner's alone. */
export const keysFor = (page) => KEYS.filter((each) => (page.isOwner || !each.owner) && (page.isAdmin || !each.admin));

/** Keys that belong to one place; listed for people, handled there. */
export const OTHERS = [
  { keys: ["Enter"], label: "Send" },
  { keys: ["Shift+Enter"], label: "A new line" },
  { keys: ["Ctrl+Enter"], label: "Send as a steer while a turn runs" },
  { keys: ["Alt+1", "Alt+2", "Alt+3"], label: "Queue, steer or interrupt" },
  { keys: ["y", "n", "a"], label: "Allow, refuse or always allow, on an approval that can be undone" },
  { keys: ["↑", "↓"], label: "Move through the list of conversations" },
];

export function onKey(event, page) {
  // Asked of the browser, because the close event of a dialog comes only after the next key.
  if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
  const writing = event.target.closest?.("input, textarea, select, [contenteditable]");
  const control = event.ctrlKey || event.metaKey;
  const pressed = `${control ? "Ctrl+" : ""}${event.key.length === 1 && control ? event.key.toLowerCase() : event.key}`;
  if (event.altKey || (writing && !control && event.key !== "Escape")) return;
  const found = keysFor(page).find((each) => each.keys.includes(pressed));
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

/** Escape closes at once: by itself a dialog says so a moment later, and the next key would find it open. */
export function closesOnEscape(event, close) {
  if (event.key !== "Escape" || event.isComposing) return;
  event.preventDefault();
  event.stopPropagation();
  close();
}
