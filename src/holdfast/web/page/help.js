// Owns the list of keys, shown on `?`.
import { html, useEffect, useRef } from "./lib/base.js";
import { KEYS, OTHERS } from "./keys.js";

export default function Help({ close }) {
  const box = useRef(null);
  useEffect(() => box.current.showModal(), []);
  return html`<dialog ref=${box} aria-labelledby="help-title" onClose=${close} onClick=${(event) => event.target === box.current && box.current.close()}>
    <h2 id="help-title">Keyboard</h2>
    <dl class="keys">
      ${[...KEYS, ...OTHERS].map((each) => html`<div><dt>${each.keys.map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${each.label}</dd></div>`)}
    </dl>
    <div class="buttons"><button type="button" class="primary" onClick=${() => box.current.close()}>Close</button></div>
  </dialog>`;
}
