// Owns the frame of dialogs: heading, close button, and the focus, which goes back when it closes.
import { html, useEffect, useRef } from "./lib/base.js";
import { closesOnEscape } from "./keys.js";

export function Dialog({ title, close, children, onKeyDown, className = "" }) {
  const box = useRef(null);
  useEffect(() => box.current.showModal(), []);
  return html`<dialog ref=${box} class=${className} aria-label=${title} onClose=${close} onKeyDown=${(event) => {
    onKeyDown?.(event);
    closesOnEscape(event, close);
  }} onClick=${(event) => event.target === box.current && box.current.close()}>
    <div class="dialog-head"><h2>${title}</h2><button type="button" class="icon" aria-label="Close" onClick=${() => box.current.close()}>×</button></div>
    ${children}
  </dialog>`;
}
