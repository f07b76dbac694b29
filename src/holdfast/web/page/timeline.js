// Owns the timeline of one turn: recall, each answer of the model, each tool call, compaction, storing and each
// delivery to memory.
import { html } from "./lib/base.js";
import { Panel, Trouble, count, useLoaded } from "./panel.js";
import { seconds } from "./message.js";
import { RecalledTexts } from "./memory.js";
import { costOf } from "./usage.js";
import { api } from "./wire.js";

const KINDS = ["recall", "model", "tool", "compaction", "storing", "delivery", "waiting"];
const NAMES = {
  recall: "Recall",
  model: "Model",
  tool: "Tool",
  waiting: "Waiting for you",
  compaction: "Compaction",
  storing: "Storing",
  delivery: "Memory",
};
const WIDTH = 340;
const LINE = 34;
const TOP = 8;

export default function Timeline({ session, turnId, close }) {
  const { state } = session;
  const { value, problem } = useLoaded(
    () => api("GET", `${session.path}/turns/${encodeURIComponent(turnId)}`),
    [turnId, state.items, state.number],
  );
  return html`<${Panel} title="Timeline of a turn" close=${close}>
    <${Trouble} problem=${problem} />
    ${
      value &&
      html`<${Picture} spans=${value.spans} />
      <p class="muted">${value.model ? `${value.model}: ` : ""}${count(value.input_tokens)} tokens read${value.cached_tokens ? ` (${count(value.cached_tokens)} from a cache)` : ""}, ${count(value.output_tokens)} written${value.usage ? `; ${costOf(value.usage)}` : ""}</p>
      <${Deliveries} spans=${value.spans.filter((span) => span.kind === "delivery")} />
      <h3>Recalled</h3>
      <${RecalledTexts} recalled=${value.recalled} />`
    }
  </${Panel}>`;
}

function Deliveries({ spans }) {
  if (!spans.length) return null;
  return html`<h3>Sent to memory</h3><ul aria-label="Deliveries">${spans.map(
    (span) => html`<li>
    <div class="line"><span>${span.name}</span><span class="num">${span.state}${span.attempts > 1 ? `, ${count(span.attempts)} attempts` : ""}</span></div>
    ${span.error && html`<p class="problem">${span.error}</p>`}
  </li>`,
  )}</ul>`;
}

/** Begin and end of each span in milliseconds from the turn's beginning; a running one ends with the last. */
export function laidOut(spans) {
  const start = Math.min(...spans.map((span) => span.started_ms));
  const known = spans.flatMap((span) => [span.started_ms, span.ended_ms ?? span.started_ms]);
  const end = Math.max(...known, start + 1);
  return {
    length: end - start,
    rows: spans.map((span) => ({
      ...span,
      from: span.started_ms - start,
      to: (span.ended_ms ?? end) - start,
      open: span.ended_ms === null || span.ended_ms === undefined,
    })),
  };
}

function nameOf({ kind, name, ok }) {
  const named = name && name !== kind ? ` · ${name}` : "";
  return `${NAMES[kind] ?? kind}${named}${ok === false ? " · failed" : ""}`;
}

const tookOf = (row) => (row.open ? "still running" : seconds(row.to - row.from));

function Picture({ spans }) {
  if (!spans.length) return html`<p class="muted">Nothing is stored about this turn.</p>`;
  const { length, rows } = laidOut(spans);
  const x = (at) => (at / length) * WIDTH;
  const height = TOP + rows.length * LINE + 20;
  const summary = rows.map((row) => `${nameOf(row)}, ${tookOf(row)}`).join("; ");
  return html`<svg class="timeline" viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${summary}>
    ${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<line x1=${x(part * length)} x2=${x(part * length)} y1="0" y2=${height - 16} />`)}
    <text class="soft" x="0" y=${height - 2}>0</text>
    <text class="soft" x=${WIDTH} y=${height - 2} text-anchor="end">${seconds(length)}</text>
    ${rows.map((row, place) => {
      const y = TOP + place * LINE;
      const kind = row.ok === false ? "kbad" : `k${Math.max(0, KINDS.indexOf(row.kind))}`;
      return html`<g>
        <title>${row.error || `${nameOf(row)}, ${tookOf(row)}`}</title>
        <text x="0" y=${y + 10}>${nameOf(row)}</text>
        <text class="soft" x=${WIDTH} y=${y + 10} text-anchor="end">${tookOf(row)}</text>
        <rect class=${kind} x=${x(row.from)} y=${y + 15} width=${Math.max(3, x(row.to - row.from))} height="9" rx="3" />
      </g>`;
    })}
  </svg>`;
}
