// Owns the command palette (Ctrl+K): every action, conversation and prompt of one's own by a few letters.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { KEYS } from "./keys.js";
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

export default function Palette({ page, close }) {
  const [words, setWords] = useState("");
  const [place, setPlace] = useState(0);
  const field = useRef(null);
  const prompts = useLoaded(() => api("GET", "/prompts"), []);
  useEffect(() => field.current.focus(), []);
  const entries = [
    ...KEYS.filter((each) => each.run && !each.hidden).map((each) => ({ label: each.label, hint: each.keys[0], run: () => each.run(page) })),
    ...(prompts.value?.items ?? []).map((each) => ({ label: `Prompt: ${each.name}`, hint: "", run: () => page.insert(each.text) })),
    ...page.list.items.slice(0, 300).map((each) => ({ label: nameOf(each), hint: "conversation", run: () => page.go(each.id) })),
  ];
  const found = ranked(entries, words);
  const run = (entry) => {
    close();
    // The dialog gives the focus back first.
    if (entry) setTimeout(entry.run, 0);
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setPlace((found.length + place + step) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[place]);
    }
  };
  return html`<${Dialog} title="Do something" close=${close} className="palette">
    <input ref=${field} class="wide" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${found.length ? `palette-${place}` : null} aria-label="What to do" placeholder="An action, a conversation, a prompt" value=${words}
      onInput=${(event) => {
        setWords(event.target.value);
        setPlace(0);
      }} onKeyDown=${onKeyDown} />
    <ul class="choices" id="palette-list" role="listbox" aria-label="Actions">
      ${found.map((each, at) => html`<li key=${`${each.label}/${each.hint}`} id=${`palette-${at}`} role="option" aria-selected=${at === place} class=${at === place ? "at" : ""} onClick=${() => run(each)}>
        <span class="clip">${each.label}</span>${each.hint && html`<kbd>${each.hint}</kbd>`}</li>`)}
    </ul>
    ${!found.length && html`<p class="muted" role="status">Nothing fits.</p>`}
  <//>`;
}
