// Owns what leaves the page as a file: a conversation as Markdown, as one HTML file without scripts, and on paper.
import { html, render } from "./lib/base.js";
import { rowsOf } from "./conversation.js";
import { blank } from "./fold.js";
import { nameOf } from "./list.js";
import { AnswerRow, NoteRow, SummaryRow, UserRow, answerText, plain, textOf } from "./message.js";
import { ToolRow, argumentsOf } from "./tool.js";
import { ROOT, api, query } from "./wire.js";

const PAGE_SIZE = 500;
const QUIET_MS = 400;
const LONGEST_MS = 8_000;

/** The whole conversation, also from before compactions. */
async function stored(id) {
  const detail = await api("GET", `/sessions/${encodeURIComponent(id)}`);
  const items = [];
  for (const part of detail.lineage) {
    let after = -1;
    for (let more = true; more; ) {
      const page = await api("GET", `/sessions/${encodeURIComponent(part.id)}/messages${query({ after, exact: true, limit: PAGE_SIZE })}`);
      items.push(...page.items);
      after = page.items.at(-1)?.seq ?? after;
      more = page.has_more;
    }
  }
  const state = { ...blank(detail.id), items, lineage: detail.lineage, loaded: true };
  return { detail, rows: rowsOf(state) };
}

const fence = (text) => "`".repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map((run) => run.length + 1)));
const fenced = (text, language = "") => `${fence(text)}${language}\n${text}\n${fence(text)}`;

export function markdownOf(detail, rows) {
  const parts = [`# ${nameOf(detail)}`, `*${new Date(detail.started_at).toLocaleString()}*`];
  for (const row of rows) {
    const { message } = row.item;
    if (row.kind === "user") parts.push("## You", textOf(message.content));
    else if (row.kind === "answer") parts.push("## Holdfast", answerText(message));
    else if (row.kind === "summary") parts.push("*The conversation was compacted here.*");
    else if (row.kind === "tool") {
      parts.push(`**Tool: ${row.call.function.name}**`, fenced(JSON.stringify(argumentsOf(row.call), null, 2), "json"));
      if (row.result) parts.push(fenced(plain(textOf(row.result.message.content))));
    }
  }
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

const fileName = (detail, ending) => `${nameOf(detail).replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation"}.${ending}`;

function download(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: `${kind};charset=utf-8` }));
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** As it can be imported again, by Holdfast itself. */
export function exportLines(id) {
  const href = `${ROOT}api/sessions/${encodeURIComponent(id)}/export`;
  Object.assign(document.createElement("a"), { href, download: `${id}.jsonl` }).click();
}

export async function exportMarkdown(id) {
  const { detail, rows } = await stored(id);
  download(fileName(detail, "md"), "text/markdown", markdownOf(detail, rows));
}

const VIEWS = { user: UserRow, answer: AnswerRow, summary: SummaryRow, note: NoteRow, tool: ToolRow };

/** The conversation drawn in full in a part of the page that only paper shows. */
async function drawn(id) {
  const { detail, rows } = await stored(id);
  const place = document.body.appendChild(Object.assign(document.createElement("div"), { className: "printout" }));
  render(
    html`<h1>${nameOf(detail)}</h1><p class="muted">${new Date(detail.started_at).toLocaleString()}</p>
      ${rows.filter((row) => VIEWS[row.kind]).map((row) => html`<${VIEWS[row.kind]} key=${row.key} ...${row} />`)}`,
    place,
  );
  await quiet(place);
  for (const each of place.querySelectorAll("button, .actions, .more")) each.remove();
  for (const each of place.querySelectorAll("details")) each.open = true;
  for (const each of place.querySelectorAll("[tabindex]")) each.removeAttribute("tabindex");
  return { detail, place, away: () => (render(null, place), place.remove()) };
}

/** Colours and formulas come a moment later: wait until nothing changes any more. */
function quiet(place) {
  return new Promise((resolve) => {
    let timer = null;
    const done = () => {
      watch.disconnect();
      resolve();
    };
    const watch = new MutationObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(done, QUIET_MS);
    });
    watch.observe(place, { childList: true, subtree: true, characterData: true });
    timer = setTimeout(done, QUIET_MS);
    setTimeout(done, LONGEST_MS);
  });
}

export async function print(id) {
  const { place, away } = await drawn(id);
  document.body.classList.add("printing");
  addEventListener("afterprint", () => (document.body.classList.remove("printing"), away()), { once: true });
  if (place.isConnected) globalThis.print();
}

const escape = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

export async function shareHtml(id) {
  const styles = (await (await fetch(`${ROOT}app.css`)).text()).replace(/@font-face\s*{[^}]*}/g, "");
  const { detail, place, away } = await drawn(id);
  const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  const text = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}"><title>${escape(nameOf(detail))}</title>
<style>${styles.replaceAll("</", "<\\/")}</style></head>
<body class="shared"><main class="printout">${place.innerHTML}</main></body></html>
`;
  away();
  download(fileName(detail, "html"), "text/html", text);
}
