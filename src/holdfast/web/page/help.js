// Owns the list of keys, shown on `?`.
import { html, useEffect, useRef } from "./lib/base.js";
import { KEYS, OTHERS } from "./keys.js";

export default function Help({ close }) {
  const box = useRef(null);
  useEffect(() => box.current.showModal(), []);
  return html`<dialog ref=${box} aria-labelledby="help-title" onClose=${close} onClick=${(event) => event.target === box.current && box.current.close()}>
    <h2 id="help-title">Keyboard</h2>
    <table><tbody>
      ${[...KEYS, ...OTHERS].map((each) => html`<tr><td>${each.keys.map((key) => html`<kbd>${key}</kbd> `)}</td><td>${each.label}</td></tr>`)}
    </tbody></table>
    <div class="buttons"><button type="button" class="primary" onClick=${() => box.current.close()}>Close</button></div>
  </dialog>`;
}
