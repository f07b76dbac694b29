// Owns what the command palette (Ctrl+K) finds: every action, conversation and prompt of one's own by a few
// letters. `shell.js` has its field, which is there before this module is.
import { html, useEffect, useState } from "./lib/base.js";
import { keysFor } from "./keys.js";
import { nameOf } from "./list.js";
import { useLoaded } from "./panel.js";
import { api } from "./wire.js";

const MOST = 12;

/** Whether all letters of the words occur in this order. */
export function fits(text, words) {
  let at = 0;
  const lower = text.toLowerCase();
  for (const letter of words.toLowerCase().replace(/\s+/g, "")) {
    at = lower.indexOf(letter, at) + 1;
    if (!at) return false;
  }
  return true;
}

/** Those that fit, the ones that hold the words as they are first. */
export function ranked(entries, words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return entries.slice(0, MOST);
  const whole = entries.filter((each) => each.label.toLowerCase().includes(wanted));
  const loose = entries.filter((each) => !whole.includes(each) && fits(each.label, wanted));
  return [...whole, ...loose].slice(0, MOST);
}

/** `keys` is told what the keys of the field do; `early`: Enter was pressed before this was there. */
export default function Palette({ page, words, early, keys, close }) {
  const [place, setPlace] = useState(0);
  const prompts = useLoaded(() => (page.isOwner ? api("GET", "/prompts") : { items: [] }), []);
  useEffect(() => setPlace(0), [words]);
  const entries = [
    ...keysFor(page).filter((each) => each.run && !each.hidden).map((each) => ({ label: each.label, hint: each.keys[0], run: () => each.run(page) })),
    ...(prompts.value?.items ?? []).map((each) => ({ label: `Prompt: ${each.name}`, hint: "", run: () => page.insert(each.text) })),
    ...page.list.items.slice(0, 300).map((each) => ({ label: nameOf(each), hint: "conversation", run: () => page.go(each.id) })),
  ];
  const found = ranked(entries, words);
  const at = Math.min(place, found.length - 1);
  const run = (entry) => {
    close();
    // The dialog gives the focus back first.
    if (entry) setTimeout(entry.run, 0);
  };
  keys.current = {
    move: (step) => setPlace((found.length + at + step) % Math.max(1, found.length)),
    enter: () => run(found[at]),
  };
  const loaded = Boolean(prompts.value || prompts.problem);
  useEffect(() => {
    // Nobody has seen what is chosen, and a prompt may be meant: all of them are waited for.
    if (early && loaded && found.length) run(found[at]);
  }, [early, loaded]);
  return html`<ul class="choices" id="palette-list" role="listbox" aria-label="Actions">
      ${found.map((each, number) => html`<li key=${`${each.label}/${each.hint}`} id=${number === at ? "palette-at" : null} role="option" aria-selected=${number === at} class=${number === at ? "at" : ""} onClick=${() => run(each)}>
        <span class="clip">${each.label}</span>${each.hint && html`<kbd>${each.hint}</kbd>`}</li>`)}
    </ul>
    ${!found.length && html`<p class="muted" role="status">Nothing fits.</p>`}`;
}
