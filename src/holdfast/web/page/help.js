// Owns the list of keys, shown on `?`.
import { html } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { OTHERS, keysFor } from "./keys.js";

export default function Help({ page, close }) {
  return html`<${Dialog} title="Keyboard" close=${close} className="roomy">
    <dl class="keys">
      ${[...keysFor(page), ...OTHERS].map((each) => html`<div><dt>${each.keys.map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${each.label}</dd></div>`)}
    </dl>
  <//>`;
}
