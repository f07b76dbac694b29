// Owns the sheet that fills the window: a block of code with room, or a preview of what it draws. A preview runs
// in a sandboxed frame without network, cookies or storage; this page only hands it the text.
import { html, render, useEffect, useRef, useState } from "./lib/base.js";
import { Copy } from "./markdown.js";
import { ROOT } from "./wire.js";

function open(opener, draw) {
  const place = document.getElementById("app").appendChild(document.createElement("div"));
  const close = () => {
    render(null, place);
    place.remove();
    opener?.focus?.();
  };
  render(draw(close), place);
}

export const showCode = (opener, shown) =>
  open(opener, (close) => html`<${CodeSheet} ...${shown} close=${close} />`);

export const showPreview = (opener, text, kind) =>
  open(opener, (close) => html`<${PreviewSheet} text=${text} kind=${kind} close=${close} />`);

function Sheet({ label, close, className = "", tools, children }) {
  const box = useRef(null);
  useEffect(() => box.current.showModal(), []);
  return html`<dialog ref=${box} class=${`sheet ${className}`} aria-label=${label} onClose=${close}>
    <div class="code-head"><span>${label}</span><span class="space"></span>${tools}
      <button type="button" onClick=${() => box.current.close()}>Close</button></div>
    ${children}
  </dialog>`;
}

function CodeSheet({ text, inner, label, close }) {
  const [wrapped, setWrapped] = useState(false);
  const tools = html`<button type="button" class="quiet" aria-pressed=${wrapped} onClick=${() => setWrapped(!wrapped)}>Wrap</button>
    <${Copy} text=${() => text} label="Copy code" />`;
  return html`<${Sheet} label=${label} close=${close} className=${wrapped ? "wrapped" : ""} tools=${tools}>
    <pre tabindex="0" role="region" aria-label=${label}>${inner}</pre>
  <//>`;
}

function PreviewSheet({ text, kind, close }) {
  const frame = useRef(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const onMessage = (event) => {
      if (event.source === frame.current?.contentWindow) setProblem(String(event.data?.problem ?? ""));
    };
    addEventListener("message", onMessage);
    return () => removeEventListener("message", onMessage);
  }, []);
  const loaded = async () => {
    // The frame has no address of its own that it could load the library from.
    const library = kind === "mermaid" ? await (await fetch(`${ROOT}lib/mermaid.js`)).text() : "";
    const chosen = document.documentElement.dataset.theme;
    const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    frame.current?.contentWindow.postMessage({ kind, text, library, dark }, "*");
  };
  const label = `Preview, ${kind}`;
  return html`<${Sheet} label=${label} close=${close} tools=${html`<span class="muted">It can't reach the network or this page.</span>`}>
    ${problem && html`<p class="problem" role="alert">It can't be shown: ${problem}</p>`}
    <iframe ref=${frame} title=${label} sandbox="allow-scripts" src=${`${ROOT}preview.html`} onLoad=${loaded}></iframe>
  <//>`;
}
