// Owns the pane of the open conversation: its rows, scrolling and paging in both directions, the status of the
// running turn, and the actions for a message or a turn.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib/base.js";
import { visible } from "./visible.js";
import {
  AnswerRow,
  Elapsed,
  NoteRow,
  Same,
  SummaryRow,
  UserRow,
  answerText,
  clock,
} from "./message.js";
import { Copy } from "./markdown.js";
import { ToolRow } from "./tool.js";

const NEAR = 80;
const AHEAD = 1_600;

/** The rows of a conversation: messages, each call with its result, and at the end of a turn its actions. */
export function rowsOf(state) {
  const items = visible(state);
  const asking = new Set(state.asks.map((ask) => ask.call_id));
  const rows = [];
  items.forEach((item, place) => {
    const { message } = item;
    if (message.role === "tool") {
      // Its call's row shows it.
    } else if (message.holdfast?.summary) {
      rows.push({ kind: "summary", key: item.key, item });
    } else if (message.role === "assistant") {
      // The card below says why the last turn failed, so its answer does not.
      const failureShown = Boolean(
        message.holdfast?.cut_off && state.last?.how === "failed" && state.last.turnId === item.turn_id,
      );
      const empty =
        !answerText(message) && !message.holdfast?.reasoning && (failureShown || !message.holdfast?.cut_off);
      if (!empty || item.open) rows.push({ kind: "answer", key: item.key, item, failureShown });
      for (const call of message.tool_calls ?? []) {
        const live = liveTool(state, item.turn_id, call.id);
        const running = state.live?.turnId === item.turn_id;
        rows.push({
          kind: "tool",
          key: `${item.key}/${call.id}`,
          item,
          sessionId: item.session_id ?? state.sessionId,
          call: { ...call, at: item.at },
          result: resultOf(items, place, call.id),
          live,
          running,
          asking: asking.has(call.id),
        });
      }
    } else {
      rows.push({ kind: message.role === "note" ? "note" : "user", key: item.key, item });
    }
    const next = items[place + 1];
    const turnId = item.turn_id;
    const ends = !next || (turnId ? next.turn_id !== turnId : next.message.role === "user");
    if (ends && message.role !== "user" && !(turnId && state.live?.turnId === turnId)) {
      rows.push({
        kind: "end",
        key: `${item.key}/end`,
        item,
        turnId,
        last: turnId && !next && !state.live,
        changed: state.changedTurns.includes(turnId),
        text: answerOf(items, place),
      });
    }
  });
  return rows;
}

const liveTool = (state, turnId, callId) =>
  [state.live, ...state.past].find((turn) => turn?.turnId === turnId)?.tools[callId];

/** The result of a call. Some models use the same ids in each answer, so only what follows this one counts. */
function resultOf(items, place, callId) {
  for (let at = place + 1; at < items.length && items[at].message.role !== "assistant"; at += 1) {
    if (items[at].message.tool_call_id === callId) return items[at];
  }
  return undefined;
}

/** The text of the answer that ends here. */
function answerOf(items, end) {
  const begin = items.findLastIndex((item, place) => place <= end && item.message.role === "user");
  return items
    .slice(begin + 1, end + 1)
    .filter((item) => item.message.role === "assistant" && !item.message.holdfast?.superseded)
    .map((item) => answerText(item.message))
    .filter(Boolean)
    .join("\n\n");
}

export function Conversation({ session, act, target }) {
  const state = session.state;
  const scroller = useRef(null);
  const stuck = useRef(true);
  const top = useRef(0);
  const [away, setAway] = useState(false);
  const rows = state.loaded ? rowsOf(state) : [];

  const onScroll = () => {
    const box = scroller.current;
    if (!box) return;
    const below = box.scrollHeight - box.scrollTop - box.clientHeight;
    // Only a person's scrolling leaves the end; growing content does not.
    if (below < NEAR) stuck.current = !state.hasAfter;
    else if (box.scrollTop < top.current - 1) stuck.current = false;
    top.current = box.scrollTop;
    setAway(below > box.clientHeight || state.hasAfter);
    if (box.scrollTop < AHEAD) session.older();
    if (below < AHEAD && state.hasAfter) session.newer();
  };

  const toEnd = async () => {
    await session.toEnd();
    stuck.current = true;
    setAway(false);
    requestAnimationFrame(
      () => scroller.current && (scroller.current.scrollTop = scroller.current.scrollHeight),
    );
  };
  // At the very top a browser does not keep the position when rows are added above it.
  const held =
    scroller.current && scroller.current.scrollTop < 2 ? scroller.current.querySelector(".cell") : null;
  const heldAt = held?.getBoundingClientRect().top;
  useLayoutEffect(() => {
    const box = scroller.current;
    if (stuck.current && !target) box.scrollTop = box.scrollHeight;
    else if (held?.isConnected) box.scrollTop += held.getBoundingClientRect().top - heldAt;
  });
  useEffect(onScroll, [state.items, state.hasAfter]);
  useEffect(() => {
    if (session.sent) toEnd();
  }, [session.sent]);
  useEffect(() => {
    // Content that grows later (a formula, a picture, a section that opens) must not push the end out of sight.
    const watch = new ResizeObserver(() => {
      if (stuck.current && !target) scroller.current.scrollTop = scroller.current.scrollHeight;
    });
    watch.observe(scroller.current.firstElementChild);
    watch.observe(scroller.current);
    return () => watch.disconnect();
  }, [target]);
  useEffect(() => {
    if (!target || !state.loaded) return;
    const row = scroller.current.querySelector(
      `[data-place="${CSS.escape(`${target.session}:${target.seq}`)}"]`,
    );
    if (!row) return;
    stuck.current = false;
    row.scrollIntoView({ block: "center" });
    row.classList.add("found");
    row.focus({ preventScroll: true });
    act.landed();
  }, [target, state.items]);

  return html`<div class="scroll" ref=${scroller} onScroll=${onScroll} tabindex="0" role="log" aria-live="off" aria-label="Conversation">
    <div class="column">
      ${state.hasBefore && html`<div class="loading" role="status">Loading earlier messages…</div>`}
      ${!state.loaded && !session.problem && html`<div class="loading" role="status">Loading…</div>`}
      ${rows.map((row) => html`<${Row} key=${row.key} row=${row} state=${state} act=${act} />`)}
      ${!state.hasAfter && html`<${Status} state=${state} act=${act} />`}
      ${state.hasAfter && html`<div class="loading" role="status">Loading later messages…</div>`}
    </div>
    ${away && html`<button type="button" class="to-end" onClick=${toEnd}>↓ Latest</button>`}
  </div>`;
}

function Row({ row, state, act }) {
  const { item } = row;
  const idle = state.state !== "running" && !state.unfinished;
  const own = item.session_id === state.sessionId && item.seq !== undefined;
  const on = [
    item.message,
    item.seq,
    item.open,
    item.full,
    row.result?.message,
    row.live,
    row.running,
    row.asking,
    row.last,
    row.changed,
    row.text,
    row.failureShown,
    idle,
    own,
  ];
  const place = item.seq === undefined ? null : `${item.session_id}:${item.seq}`;
  return html`<${Same} on=${on} draw=${() => html`<div class="cell" data-place=${place} tabindex="-1">${rowContent(row, { idle, own, act })}</div>`} />`;
}

function rowContent(row, { idle, own, act }) {
  const { item } = row;
  const stored = item.seq !== undefined;
  if (row.kind === "user") {
    // A message without a sequence number can't be branched from; one before a compaction can't be edited.
    const actions = [
      own && idle && html`<button type="button" class="quiet" onClick=${() => act.edit(item)}>Edit</button>`,
      stored &&
        html`<button type="button" class="quiet" onClick=${() => act.branch(item, true)}>Branch</button>`,
    ];
    return html`<${UserRow} item=${item} actions=${actions} />`;
  }
  if (row.kind === "answer") return html`<${AnswerRow} item=${item} failureShown=${row.failureShown} />`;
  if (row.kind === "tool") return html`<${ToolRow} ...${row} />`;
  if (row.kind === "summary") return html`<${SummaryRow} item=${item} />`;
  if (row.kind === "note") return html`<${NoteRow} item=${item} />`;
  return html`<div class="row end">
    <div class="actions">
      ${row.text && html`<${Copy} text=${() => row.text} label="Copy answer" />`}
      ${row.last && idle && html`<button type="button" class="quiet" onClick=${act.regenerate}>Regenerate</button>`}
      ${stored && html`<button type="button" class="quiet" onClick=${() => act.branch(item, false)}>Branch</button>`}
      ${row.last && idle && html`<button type="button" class="quiet" onClick=${act.undo}>Undo</button>`}
      ${row.turnId && row.changed && html`<button type="button" class="quiet" onClick=${() => act.changes(row.turnId)}>Changes</button>`}
      ${row.turnId && html`<button type="button" class="quiet" onClick=${() => act.timeline(row.turnId)}>Timeline</button>`}
      ${item.at && html`<time>${clock(item.at)}</time>`}
    </div>
  </div>`;
}

const DOING = {
  thinking: "Thinking",
  reasoning: "Thinking",
  answering: "Answering",
  compacting: "Compacting the conversation",
};

function Status({ state, act }) {
  const { live, last, unfinished, trouble } = state;
  return html`<div>
    ${
      live &&
      html`<div class="status" role="status">
      <span class="pulse"></span>
      ${
        live.retry
          ? html`<span class="warn">${live.retry.problem} Trying again in ${Math.ceil(live.retry.delay)} s (attempt ${live.retry.attempt + 1}).</span>`
          : html`<span>${state.asks.length ? "Waiting for you" : (DOING[live.doing] ?? `Running ${live.doing}`)}…</span>`
      }
      <${Elapsed} since=${live.began} />
      ${state.elsewhere && html`<span class="muted">in another process</span>`}
    </div>`
    }
    ${state.compacting && html`<div class="status" role="status"><span class="pulse"></span>${DOING.compacting}…</div>`}
    ${state.said && html`<div class="row note" role="status">${state.said}</div>`}
    ${!live && state.state === "elsewhere" && html`<div class="status" role="status"><span class="pulse"></span>Another process runs this conversation; its progress is shown here.</div>`}
    ${
      last?.how === "failed" &&
      html`<${Card} kind="bad" title="The turn failed" text=${last.reason} more="Your message and the work so far are kept.">
      <button type="button" class="primary" onClick=${act.regenerate}>Try again</button>
      <button type="button" onClick=${act.seen}>Dismiss</button>
    </${Card}>`
    }
    ${trouble && html`<${Card} kind="bad" title="The conversation can't go on yet" text=${trouble} more="Your messages wait." />`}
    ${
      unfinished &&
      !live &&
      html`<${Card} kind="warn" title="This turn was cut off" text=${cutOff(unfinished)} partial=${unfinished.partial} more="Nothing was lost. A tool call that may have taken effect does not run again without your approval.">
      <button type="button" class="primary" onClick=${act.resume}>Resume</button>
      <button type="button" onClick=${act.regenerate}>Start over</button>
      <button type="button" onClick=${act.drop}>Drop</button>
    </${Card}>`
    }
  </div>`;
}

function cutOff({ finished_calls: finished, open_calls: open }) {
  const done = finished ? ` ${finished} tool ${finished === 1 ? "call" : "calls"} had finished.` : "";
  const left = open?.length ? ` Without a result: ${open.join(", ")}.` : "";
  return `The program ended while it was answering.${done}${left}`;
}

export function Card({ kind, title, text, more, partial, children }) {
  return html`<section class=${`card ${kind}`} role="alert">
    <h2>${title}</h2>
    ${text && html`<p class="detail">${text}</p>`}
    ${partial && html`<blockquote class="partial">${partial}</blockquote>`}
    ${more && html`<p class="muted">${more}</p>`}
    ${children && html`<div class="buttons">${children}</div>`}
  </section>`;
}
