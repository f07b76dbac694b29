// Owns how a tool call looks: one line, and below it a card that fits the tool: the changes of an edit, a list
// of tasks, a command with its output, a file. Other tools show their arguments and their result.
import { html, useEffect, useState } from "./lib/base.js";
import { Code, Copy } from "./markdown.js";
import { Elapsed, plain, seconds, textOf } from "./message.js";
import { api, query } from "./wire.js";

const SHOWN_LINES = 12;
const LANGUAGES = { py: "python", js: "javascript", ts: "typescript", rs: "rust", sh: "bash", md: "markdown", yml: "yaml", toml: "ini", h: "c", htm: "html" };

export function argumentsOf(call) {
  try {
    const read = JSON.parse(call.function.arguments || "{}");
    return read && typeof read === "object" ? read : { arguments: read };
  } catch {
    return { arguments: call.function.arguments };
  }
}

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const languageOf = (path) => {
  const ending = /\.(\w+)$/.exec(path ?? "")?.[1]?.toLowerCase() ?? "";
  return LANGUAGES[ending] ?? ending;
};

/** The lines of a change, once the library that compares is loaded: `{sign, text}`; null until then. */
export function useChange(before, after, patch = null) {
  const [lines, setLines] = useState(null);
  useEffect(() => {
    let wanted = true;
    import("./diff.js").then(
      ({ changedLines, patchLines }) => wanted && setLines(patch === null ? changedLines(before, after) : patchLines(patch)),
      () => {},
    );
    return () => {
      wanted = false;
    };
  }, [before, after, patch]);
  return lines;
}

/** Added and removed lines in colours, with a sign before each. */
export function Diff({ before = "", after = "", patch = null, path }) {
  const lines = useChange(before, after, patch);
  const [whole, setWhole] = useState(false);
  if (!lines) return html`<pre class="diff">…</pre>`;
  const most = whole ? lines.length : SHOWN_LINES * 2;
  return html`<div class="diff-box">
    <pre class="diff" tabindex="0" role="region" aria-label=${`Changes to ${path}`}>${lines
      .slice(0, most)
      .map(({ sign, text }) => html`<span class=${{ "+": "added", "-": "removed", "@": "place" }[sign] ?? ""}>${sign === "@" ? "" : `${sign} `}${text}${"\n"}</span>`)}</pre>
    ${lines.length > most && html`<button type="button" class="quiet more" onClick=${() => setWhole(true)}>Show all ${lines.length.toLocaleString()} lines</button>`}
  </div>`;
}

/** A long text: its last lines (`tail`) or its first ones, and a button for the rest. */
function Output({ text, tail = false, label = "Tool output" }) {
  const [whole, setWhole] = useState(false);
  const lines = text.split("\n");
  const cut = !whole && lines.length > SHOWN_LINES + 3;
  const part = cut ? (tail ? lines.slice(-SHOWN_LINES) : lines.slice(0, SHOWN_LINES)).join("\n") : text;
  const more = cut && html`<button type="button" class="quiet more" onClick=${() => setWhole(true)}>Show all ${lines.length.toLocaleString()} lines</button>`;
  return html`${tail && more}<pre tabindex="0" class="output" role="region" aria-label=${label}>${part}</pre>${!tail && more}`;
}

function Todo({ items }) {
  const words = { done: "done", in_progress: "in work", pending: "to do" };
  return html`<ul class="todo" aria-label="Tasks">
    ${items.map((each) => html`<li class=${each.state ?? "pending"}><span class="box" aria-hidden="true">${{ done: "✓", in_progress: "•" }[each.state] ?? ""}</span><span>${each.text}</span><span class="sr">, ${words[each.state] ?? "to do"}</span></li>`)}
  </ul>`;
}

function Command({ given, output, ended }) {
  return html`<div class="command"><span aria-hidden="true">$ </span><code>${given.command}</code></div>
    ${output ? html`<${Output} text=${output} tail=${true} />` : html`<p class="muted">${ended ? "It printed nothing." : "Nothing is printed yet."}</p>`}`;
}

const NUMBERED = /^\d+\t/;

function ReadFile({ given, output }) {
  const lines = output.split("\n");
  if (!NUMBERED.test(lines[0])) return html`<${Output} text=${output} />`;
  const text = lines.map((line) => line.replace(NUMBERED, "")).join("\n");
  const first = Number(/^\d+/.exec(lines[0])[0]);
  const title = `${given.path}, from line ${first}`;
  return html`<${Code} text=${text} language=${languageOf(given.path)} title=${title} fold=${true} />`;
}

function Plain({ given, output, result, failed }) {
  return html`<dl>
      ${Object.entries(given).map(([name, value]) => html`<dt>${name}</dt><dd><pre tabindex="0">${shown(value)}</pre></dd>`)}
    </dl>
    <div class="code-head"><span>${result ? (failed ? "What went wrong" : "Result") : "Output so far"}</span><${Copy} text=${() => output} label="Copy result" /></div>
    <${Output} text=${output || (result ? "(nothing)" : "(nothing yet)")} />`;
}

const edits = (given) => typeof given.old === "string" && typeof given.new === "string";

/** What a person is asked to allow: the whole file as changes of what is there now, or as it is where nothing is. */
function Rewrite({ given, ask }) {
  const [before, setBefore] = useState(null);
  useEffect(() => {
    let wanted = true;
    api("GET", `${ask}/before`).then(
      ({ text }) => wanted && setBefore(text),
      () => {},
    );
    return () => {
      wanted = false;
    };
  }, [ask]);
  return before === null || before === given.text ? html`<${Whole} given=${given} />` : html`<${Diff} before=${before} after=${given.text} path=${given.path} />`;
}

const Whole = ({ given }) => html`<${Code} text=${given.text} language=${languageOf(given.path)} title=${given.path} fold=${true} />`;

/** What a call would change, or null where there is nothing to see; `ask`: the address of what asks about it. */
export function ChangeOf({ call, ask = "" }) {
  const given = argumentsOf(call);
  if (call.function.name === "edit_file" && edits(given))
    return html`<${Diff} before=${given.old} after=${given.new} path=${given.path} />`;
  if (call.function.name === "write_file" && typeof given.text === "string")
    return ask ? html`<${Rewrite} given=${given} ask=${ask} />` : html`<${Whole} given=${given} />`;
  return null;
}

const samePath = (given, shown) => given === shown || given.endsWith(`/${shown}`);

/** What a call of `write_file` did to a file that was there before; its text until that is known, and otherwise. */
function Written({ call, given, turnId, sessionId, ended }) {
  const [change, setChange] = useState(null);
  useEffect(() => {
    let wanted = ended && turnId;
    if (!wanted) return undefined;
    api("GET", `/sessions/${encodeURIComponent(sessionId)}/changes${query({ turn_id: turnId })}`).then(
      // One that other calls of the turn changed too is shown whole: what is on record is what all of them did.
      ({ items }) => wanted && setChange(items.find((each) => samePath(given.path, each.path) && each.steps === 1 && each.kind === "changed")),
      () => {},
    );
    return () => {
      wanted = false;
    };
  }, [ended, turnId]);
  return change?.diff ? html`<${Diff} patch=${change.diff} path=${change.path} />` : html`<${ChangeOf} call=${call} />`;
}

function cardOf(parts) {
  const { call, given, output, result, failed } = parts;
  const { name } = call.function;
  const note = output && html`<p class=${failed ? "problem" : "muted"}>${output}</p>`;
  if (name === "edit_file" && edits(given)) return html`<${ChangeOf} call=${call} />${failed && note}`;
  if (name === "write_file" && typeof given.text === "string") return html`<${Written} ...${parts} ended=${Boolean(result) && !failed} />${note}`;
  if (name === "todo" && Array.isArray(given.items)) return html`<${Todo} items=${given.items} />${failed && note}`;
  if (name === "run_command" && typeof given.command === "string")
    return html`<${Command} given=${given} output=${output} ended=${result} />`;
  if (name === "read_file" && result && !failed) return html`<${ReadFile} given=${given} output=${output} />`;
  return html`<${Plain} ...${parts} />`;
}

function counted({ old, new: fresh }) {
  const lines = (text) => (text ? text.split("\n").length : 0);
  return `+${lines(fresh)} −${lines(old)}`;
}

function gistOf(call, given, lastLine) {
  if (lastLine) return lastLine;
  const { name } = call.function;
  if (name === "edit_file" && edits(given)) return `${given.path}  ${counted(given)}`;
  if (name === "write_file") return given.path ?? "";
  if (name === "todo" && Array.isArray(given.items))
    return `${given.items.filter((each) => each.state === "done").length} of ${given.items.length} done`;
  return Object.values(given).map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join(" ").replace(/\s+/g, " ").slice(0, 200);
}

const OPEN = new Set(["edit_file", "write_file", "todo"]);

/** Milliseconds that the tool itself took: the time in which it waited for a person is not the tool's. */
export function tookOf({ result, live, began }) {
  if (!result?.at || !began) return null;
  const waited = live?.waited ?? (result.message.holdfast?.waited ?? 0) * 1000;
  return Math.max(0, result.at - began - waited);
}

/** A tool call: `live` has its streamed output, `result` its stored result, `running` whether its turn runs. */
export function ToolRow({ item, sessionId, call, result, live, running, asking }) {
  const failed = Boolean(result?.message.holdfast?.failed);
  const state = result ? (failed ? "failed" : "done") : asking ? "asking" : running ? "running" : "unknown";
  const output = plain(result ? textOf(result.message.content) : (live?.output ?? ""));
  const given = argumentsOf(call);
  const { name } = call.function;
  const lastLine = !result && output.trim() ? output.trim().split("\n").at(-1) : "";
  const began = live?.began ?? call.at;
  const took = tookOf({ result, live, began });
  const word = {
    done: "done",
    failed: "failed",
    asking: "waiting for you",
    running: "running",
    unknown: "no result on record",
  }[state];
  // What changed and what failed is seen at once; the rest is one line until somebody opens it.
  const open = (OPEN.has(name) && state !== "asking") || (name === "run_command" && (failed || (state === "running" && Boolean(output))));
  return html`<details class=${`row tool ${state}`} open=${open}>
    <summary>
      <span class="mark" aria-hidden="true"></span>
      <span class="name">${name}</span>
      <span class="gist">${gistOf(call, given, lastLine)}</span>
      <span class="state">${state === "running" ? html`<${Elapsed} since=${began + (live?.waited ?? 0)} />` : took === null ? word : `${failed ? "failed, " : ""}${seconds(took)}`}</span>
      <span class="sr">${word}</span>
    </summary>
    <div class="tool-body">
      ${cardOf({ turnId: item.turn_id, sessionId, call, given, output, result, failed })}
      ${live?.tasks?.map((each) => html`<div class="task"><a href=${`#/s/${each.id}`}>Subagent</a>: ${each.task} ${each.ok === null ? "(running)" : each.ok ? "(done)" : "(failed)"}</div>`)}
    </div>
  </details>`;
}
