// Owns the part above the composer: the agent's approvals and questions, and the person's waiting messages, which
// can be changed or withdrawn until a turn takes them.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { Said, textOf } from "./message.js";
import { MODES } from "./composer.js";
import { ChangeOf } from "./tool.js";
import { callOf } from "./visible.js";

export function Dock({ session, state, act }) {
  return html`<div class="dock">
    <div aria-live="assertive" class="asks">
      ${state.asks.map((ask) => html`<${Ask} key=${ask.ask_id} ask=${ask} session=${session} act=${act} />`)}
    </div>
    <${Waiting} session=${session} state=${state} act=${act} />
  </div>`;
}

function Left({ until }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  if (!until) return null;
  const left = Math.max(0, Math.round((until - now) / 1000));
  const time = left > 90 ? `${Math.round(left / 60)} min` : `${left} s`;
  return html`<span class="muted">${left ? `${time} left; no answer means no` : "the time is up"}</span>`;
}

const ARMED_MS = 700;

function Ask({ ask, session, act }) {
  const [busy, setBusy] = useState(false);
  const [armed, setArmed] = useState(false);
  const [text, setText] = useState("");
  const [problem, setProblem] = useState(null);
  const card = useRef(null);
  const call = callOf(session.state, ask.call_id);
  useEffect(() => {
    // The focus moves here unless the person is writing, and no key press answers by itself.
    const at = document.activeElement;
    const writing = at?.matches?.("textarea, input") && at.value && at.value !== at.dataset.sending;
    if (!writing) card.current?.focus({ preventScroll: false });
    // A key press meant for something else must not answer an ask that just appeared.
    const timer = setTimeout(() => setArmed(!ask.destructive), ARMED_MS);
    return () => clearTimeout(timer);
  }, []);
  const run = async (work) => {
    setBusy(true);
    setProblem(null);
    try {
      await work();
      act.focusComposer();
    } catch (refused) {
      setProblem(refused);
      setBusy(false);
    }
  };
  // An ask of an earlier release has no list; "always" has no effect where something can't be undone.
  const possible = ask.decisions ?? (ask.destructive ? ["yes", "no"] : ["yes", "always", "no"]);
  const decide = (decision) => run(() => session.decide(ask, decision));
  const reply = (words) => words.trim() && run(() => session.answer(ask, words));
  const onKeyDown = (event) => {
    if (event.target !== card.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const decision = { y: "yes", n: "no", a: "always" }[event.key];
    if (!decision) return;
    // Here these letters answer or do nothing: elsewhere on the page they begin a chat or open a panel.
    event.preventDefault();
    event.stopPropagation();
    if (possible.includes(decision) && armed && !busy) decide(decision);
  };
  const failed = problem && html`<p class="problem" role="alert">${problem.message} ${problem.next}</p>`;
  if (ask.kind === "question") {
    return html`<section class="card ask" ref=${card} tabindex="-1" aria-label="The agent asks you">
      <h2>The agent asks</h2>
      <p class="detail">${ask.question}</p>
      ${ask.choices?.length > 0 && html`<div class="buttons">${ask.choices.map((choice) => html`<button type="button" disabled=${busy} onClick=${() => reply(choice)}>${choice}</button>`)}</div>`}
      <form class="reply" onSubmit=${(event) => {
        event.preventDefault();
        reply(text);
      }}>
        <input aria-label="Your answer" placeholder="Your answer" value=${text} onInput=${(event) => setText(event.target.value)} />
        <button class="primary" disabled=${busy || !text.trim()}>Answer</button>
      </form>
      <${Left} until=${ask.until} />${failed}
    </section>`;
  }
  return html`<section class=${`card ask${ask.destructive ? " bad" : ""}`} ref=${card} tabindex="-1" onKeyDown=${onKeyDown} aria-label="The agent asks for your approval">
    <h2>${ask.destructive ? "This can't be undone. Allow" : "Allow"} this ${ask.subject_kind}?</h2>
    <pre class="subject" tabindex="0">${ask.subject}</pre>
    ${call && html`<${ChangeOf} call=${call} ask=${`${session.path}/approvals/${encodeURIComponent(ask.ask_id)}`} />`}
    ${ask.reason && html`<p class="muted">${ask.reason}</p>`}
    ${possible.includes("always") && html`<p class="muted">“Always” allows exactly this for the rest of this conversation.</p>`}
    <div class="buttons">
      <${Choice} loud=${!ask.destructive} letter=${armed && "y"} busy=${busy} onClick=${() => decide("yes")}>Allow${possible.includes("always") ? "" : " once"}<//>
      ${possible.includes("always") && html`<${Choice} letter=${armed && "a"} busy=${busy} title="Allows exactly this, for the rest of this conversation" onClick=${() => decide("always")}>Always<//>`}
      <${Choice} loud=${ask.destructive} letter=${armed && "n"} busy=${busy} onClick=${() => decide("no")}>Refuse<//>
      <${Left} until=${ask.until} />
    </div>${failed}
  </section>`;
}

// The primary button is the safe answer: to refuse, where something can't be undone.
function Choice({ loud, letter, busy, title, onClick, children }) {
  return html`<button type="button" class=${loud ? "primary" : ""} title=${title} disabled=${busy} onClick=${onClick}>${children}${letter && html` <kbd>${letter}</kbd>`}</button>`;
}

function Waiting({ session, state, act }) {
  if (!state.waiting.length) return null;
  const idle = state.state !== "running" && state.state !== "elsewhere" && !state.unfinished;
  return html`<section class="waiting" aria-label="Messages that wait">
    ${state.waiting.map((each) => html`<${One} key=${each.inbox_id} waiting=${each} session=${session} act=${act} idle=${idle} />`)}
    ${idle && html`<div class="buttons"><button type="button" onClick=${act.runWaiting}>Run waiting messages</button></div>`}
  </section>`;
}

function One({ waiting, session, act, idle }) {
  const { inbox_id: id, mode, message } = waiting;
  const [editing, setEditing] = useState(null);
  const [problem, setProblem] = useState(null);
  const run = async (work) => {
    try {
      setProblem(null);
      await work();
      setEditing(null);
    } catch (refused) {
      setProblem(refused);
      if (refused.status === 409 || refused.status === 404) session.reload();
    }
  };
  const chosen = MODES.find((each) => each.name === mode);
  const editable = typeof message.content === "string";
  return html`<div class=${`waits ${mode}`}>
    <div class="waits-head">
      <span class="tag">${idle ? "Waiting" : chosen?.label === "Queue" ? "Queued" : chosen?.label === "Steer" ? "Steering" : "Interrupting"}</span>
      <span class="muted">${idle ? "runs when you choose" : chosen?.hint}</span>
      <span class="space"></span>
      ${editing === null && editable && html`<button type="button" class="quiet" onClick=${() => setEditing(textOf(message.content))}>Change</button>`}
      ${editing === null && html`<button type="button" class="quiet" onClick=${() => run(() => session.withdraw(id))}>Withdraw</button>`}
    </div>
    ${
      editing === null
        ? html`<${Said} content=${message.content} />`
        : html`<form onSubmit=${(event) => {
            event.preventDefault();
            run(() => session.change(id, editing.trim(), mode));
          }}>
          <textarea aria-label="Change the waiting message" value=${editing} onInput=${(event) => setEditing(event.target.value)}
            onKeyDown=${(event) => event.key === "Escape" && (event.stopPropagation(), setEditing(null))}></textarea>
          <div class="buttons"><button class="primary" disabled=${!editing.trim()}>Save</button>
            <button type="button" onClick=${() => setEditing(null)}>Cancel</button></div>
        </form>`
    }
    ${problem && html`<p class="problem" role="alert">${problem.message} ${problem.next}</p>`}
  </div>`;
}
