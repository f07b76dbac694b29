// Owns how one row of a conversation looks: a user's message, an answer, a note, a summary; `tool.js` has the calls.
// A row is rendered again only when its content has changed.
import { Component, html, useEffect, useState } from "./lib/base.js";
import { Copy, Markdown } from "./markdown.js";

const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-_])/g;
export const plain = (text) => text.replace(ESCAPES, "").replace(/\r\n?/g, "\n");

export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
export const seconds = (ms) => {
  if (ms < 950) return `${Math.max(0, Math.round(ms / 10) / 100).toFixed(1)} s`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
};

/** Renders again only when one of the values in `on` has changed. */
export class Same extends Component {
  shouldComponentUpdate(next) {
    return (
      this.props.on.length !== next.on.length || this.props.on.some((each, place) => each !== next.on[place])
    );
  }

  render({ children, draw }) {
    return draw ? draw() : children;
  }
}

export function Elapsed({ since }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return since ? html`<span class="elapsed">${seconds(Math.max(0, now - since))}</span>` : null;
}

export const textOf = (content) =>
  typeof content === "string"
    ? content
    : (content ?? [])
        .map((part) => part.text ?? "")
        .filter(Boolean)
        .join("\n\n");

const FILE = /^(?:File|The file) ([^\n]{1,200}):\n(?:<file>\n)?([\s\S]*?)(?:\n<\/file>)?$/;

function Part({ part }) {
  if (part.type === "image_url") {
    const source = part.image_url?.url ?? "";
    if (/^data:image\//.test(source))
      return html`<img class="attached" src=${source} alt="Attached image" />`;
    return html`<span class="chip">image: ${source}</span>`;
  }
  if (part.type === "file") return html`<span class="chip">file: ${part.file?.filename}</span>`;
  const file = FILE.exec(part.text ?? "");
  if (!file) return part.text ? html`<div class="said" dir="auto">${part.text}</div>` : null;
  return html`<details class="file">
    <summary>${file[1]} <span class="muted">${file[2].length.toLocaleString()} characters</span></summary>
    <pre tabindex="0">${file[2]}</pre>
  </details>`;
}

const FOLD_AT = 2_500;

export function Said({ content }) {
  const [whole, setWhole] = useState(false);
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  const size = textOf(content).length;
  return html`<div class=${`bubble${size > FOLD_AT && !whole ? " folded" : ""}`}>
    ${parts.map((part, place) => html`<${Part} key=${place} part=${part} />`)}
    ${
      size > FOLD_AT &&
      html`<button type="button" class="quiet more" onClick=${() => setWhole(!whole)}>
      ${whole ? "Show less" : `Show all ${size.toLocaleString()} characters`}
    </button>`
    }
  </div>`;
}

export function UserRow({ item, actions }) {
  const content = item.full?.content ?? item.message.content;
  return html`<article class="row user" aria-label="You">
    ${item.joined && html`<div class="tag">steered the turn</div>`}
    <${Said} content=${content} />
    <div class="actions">
      <${Copy} text=${() => textOf(content)} label="Copy message" />
      ${actions}
      ${item.at && html`<time>${clock(item.at)}</time>`}
    </div>
  </article>`;
}

const CUT = /\n*\[cut off here: [\s\S]*\]\s*$/;

/** The text of an answer, without the note at the end of one that was cut off. */
export const answerText = ({ content, holdfast }) =>
  holdfast?.cut_off ? textOf(content).replace(CUT, "") : textOf(content);

export function AnswerRow({ item, failureShown }) {
  const { message, open } = item;
  const kept = message.holdfast ?? {};
  const cutOff = !failureShown && kept.cut_off;
  const text = answerText(message);
  const body = text && html`<${Markdown} text=${text} open=${Boolean(open)} />`;
  return html`<article class=${`row answer${open ? " open" : ""}`} aria-label="Holdfast" aria-busy=${open ? "true" : null}>
    ${kept.reasoning && html`<${Reasoning} text=${kept.reasoning} open=${open && !text} />`}
    ${
      kept.set_aside
        ? html`<div class="cut" role="note">${text.slice(1, -1)}</div>`
        : kept.superseded
        ? html`<details class="void"><summary>An answer that broke off: ${kept.superseded}</summary>${body}</details>`
        : body
    }
    ${cutOff && html`<div class="cut" role="note"><strong>Stopped here.</strong> ${cutOff}</div>`}
  </article>`;
}

function Reasoning({ text, open }) {
  return html`<details class="reasoning">
    <summary>${open ? html`<span class="pulse"></span>Thinking…` : "Reasoning"}</summary>
    <div class="thoughts">${text}</div>
  </details>`;
}

export function NoteRow({ item }) {
  return html`<div class="row note" role="note">${item.message.content}</div>`;
}

export function SummaryRow({ item }) {
  return html`<details class="row summary">
    <summary><span>The conversation was compacted here</span></summary>
    <div class="thoughts">${textOf(item.message.content)}</div>
  </details>`;
}
