// Owns forgetting in the memory view: shows what would go and asks, and lists the records of what went.
import { html, useState } from "./lib/base.js";
import { Trouble, count } from "./panel.js";
import { api } from "./wire.js";

const KINDS = {
  words: "All with the words",
  conversation: "This conversation",
  time: "A period",
  person: "All that a person said",
};
const SHOWN = 5;

/** Selects memories in one of several ways, shows what would be forgotten, and asks. */
export function Forget({ page, session, done }) {
  const kinds = page.isOwner ? KINDS : { conversation: KINDS.conversation };
  const [kind, setKind] = useState(Object.keys(kinds)[0]);
  const [text, setText] = useState("");
  const [after, setAfter] = useState("");
  const [before, setBefore] = useState("");
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  const change = (set) => (event) => {
    set(event.target.value);
    setFound(null);
    setProblem(null);
  };
  const wanted = selectionOf(kind, { text, after, before, sessionId: session?.id });
  const look = async () => {
    try {
      setFound(await api("POST", "/memory/forget/preview", wanted));
      setProblem(null);
    } catch (refused) {
      setProblem(refused);
    }
  };
  const forget = () =>
    page.trying(async () => {
      // What was shown is what goes, not what the words find by then.
      const chosen = kind === "words" ? { memories: found.memories.map(({ provider, id }) => ({ provider, id })) } : wanted;
      page.say(outcomeOf(await api("POST", "/memory/forget", chosen)));
      setFound(null);
      setText("");
      done();
    });
  const nothing = found && !found.turns && !found.memories.length && found.kind !== "time";
  return html`<h3>Forget</h3>
    <div class="forget" role="group" aria-label="Forget" onKeyDown=${(event) => event.key === "Enter" && event.target.tagName === "INPUT" && wanted && look()}>
      <select aria-label="What to forget" value=${kind} onChange=${change(setKind)}>
        ${Object.entries(kinds).map(([each, label]) => html`<option value=${each} disabled=${each === "conversation" && !session?.id}>${label}</option>`)}
      </select>
      ${(kind === "words" || kind === "person") && html`<input aria-label=${kind === "words" ? "Words" : "Person"} placeholder=${kind === "words" ? "Words" : "Name"} value=${text} onInput=${change(setText)} />`}
      ${
        kind === "time" &&
        html`<label>From <input type="date" value=${after} onInput=${change(setAfter)} /></label>
        <label>to before <input type="date" value=${before} onInput=${change(setBefore)} /></label>`
      }
      <button type="button" disabled=${!wanted} onClick=${look}>Show what would go</button>
    </div>
    <${Trouble} problem=${problem} />
    ${nothing && html`<p class="muted" role="status">Nothing in memory fits that.</p>`}
    ${
      found &&
      !nothing &&
      html`<div role="status" aria-label="What would be forgotten">
      <p>${summaryOf(found)}</p>
      <ul>${found.memories.slice(0, SHOWN).map((each) => html`<li key=${`${each.provider}/${each.id}`}><p class="detail">${each.text}</p></li>`)}</ul>
      ${found.memories.length > SHOWN && html`<p class="muted">and ${count(found.memories.length - SHOWN)} more</p>`}
      <div class="buttons"><button type="button" class="danger" onClick=${forget}>Forget for good</button><button type="button" onClick=${() => setFound(null)}>Keep</button></div>
    </div>`
    }`;
}

/** The last forgettings, without their content. */
export function Forgotten({ page, found }) {
  const items = found.value?.items ?? [];
  if (!items.length) return html`<${Trouble} problem=${found.problem} />`;
  const retry = (each) =>
    page.trying(async () => {
      await api("POST", `/memory/forgotten/${each.id}/retry`, {});
      found.again();
    });
  return html`<h3>Forgotten</h3>
    <ul aria-label="Forgotten">${items.map(
      (each) => html`<li key=${each.id}>
      <div class="line"><strong>${turns(each.turns)}</strong><span class="num">${new Date(each.at).toLocaleString()}</span></div>
      ${each.providers.map((one) => html`<small class=${one.state === "failed" ? "problem" : ""}>${one.provider}: ${STATES[one.state](one)}${one.note ? `; ${one.note}` : ""}</small>`)}
      ${each.providers.some((one) => one.state === "failed") && html`<div class="buttons"><button type="button" onClick=${() => retry(each)}>Try again</button></div>`}
    </li>`,
    )}</ul>`;
}

const STATES = {
  owed: () => "not done yet",
  done: (one) => `${count(one.forgotten)} deleted`,
  unable: () => "nothing deleted",
  failed: () => "failed",
};

const turns = (number) => (number === 1 ? "1 turn" : `${count(number)} turns`);

function summaryOf(found) {
  const parts = [];
  if (found.memories.length) parts.push(found.memories.length === 1 ? "1 memory" : `${count(found.memories.length)} memories`);
  if (found.turns || !parts.length) parts.push(turns(found.turns));
  if (found.kind === "time") parts.push("notes and facts of that time");
  return `This would be forgotten for good, by every memory provider: ${parts.join(", ")}.`;
}

/** What to say after a forgetting: that it is done, or who could not do all of it. */
export function outcomeOf(record) {
  const open = record.providers.filter((each) => each.state !== "done" || each.note);
  if (!open.length) return "It is forgotten.";
  return `It is forgotten, except: ${open.map((each) => `${each.provider}: ${each.note || "not done yet"}`).join("; ")}`;
}

function selectionOf(kind, { text, after, before, sessionId }) {
  const at = (day) => (day ? new Date(`${day}T00:00`).getTime() : undefined);
  const selections = {
    words: text.trim() && { words: text.trim() },
    person: text.trim() && { person: text.trim() },
    time: (after || before) && { after: at(after), before: at(before) },
    conversation: sessionId && { session_id: sessionId },
  };
  return selections[kind] || null;
}
