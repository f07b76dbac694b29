// Owns notifications: with a person's permission, the browser says when a conversation needs them or has ended
// a turn while the page is out of sight.
import { nameOf } from "./list.js";
import { ROOT } from "./wire.js";

export const possible = () => "Notification" in globalThis;

/** Ask the browser for permission; answers whether it is given. */
export async function allowed() {
  if (!possible()) return false;
  if (Notification.permission === "default") await Notification.requestPermission();
  if (Notification.permission !== "granted") return false;
  await registerWorker();
  return true;
}

export const registerWorker = () => navigator.serviceWorker?.register(`${ROOT}sw.js`, { scope: ROOT }).catch(() => {});

/** Looks at the list each time it changes, and tells what is new since the last look. */
export class Notifier {
  constructor(show = showNotification) {
    this._show = show;
    this._known = new Map();
  }

  look(list) {
    for (const session of list.items) {
      const before = this._known.get(session.root_id);
      this._known.set(session.root_id, { asking: session.asking, state: session.state });
      if (!before || document.visibilityState === "visible") continue;
      const name = nameOf(session).slice(0, 80);
      if (session.asking > before.asking) this._show("Holdfast needs you", name, session.id);
      else if (before.state === "running" && session.state === "idle" && !session.waiting) this._show("The answer is there", name, session.id);
    }
  }
}

async function showNotification(title, body, id) {
  if (!possible() || Notification.permission !== "granted") return;
  const options = { body, tag: id, icon: `${ROOT}icon.svg`, data: { address: `${ROOT}#/s/${encodeURIComponent(id)}` } };
  const worker = await navigator.serviceWorker?.getRegistration(ROOT);
  if (worker) return void worker.showNotification(title, options);
  const shown = new Notification(title, options);
  shown.onclick = () => {
    focus();
    location.href = options.data.address;
  };
}
