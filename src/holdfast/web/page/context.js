// Owns the context view: how full the model's window is and what fills it, the compactions, links to the
// earlier sessions, and the sandbox for commands.
import { html } from "./lib/base.js";
import { Panel, Trouble, count, useLoaded } from "./panel.js";
import { costOf, tokensOf } from "./usage.js";
import { api } from "./wire.js";

const NAMES = {
  system: "Instructions",
  tools: "Tool descriptions",
  recalled: "Recalled from memory",
  summary: "Summary of earlier messages",
  person: "Your messages",
  assistant: "Answers",
  tool_results: "Tool results",
};

export default function Context({ page, session, close }) {
  const { state } = session;
  const { value, problem } = useLoaded(
    () => api("GET", `${session.path}/context`),
    [state.sessionId, state.items, state.context],
  );
  const { value: spent } = useLoaded(() => api("GET", `${session.path}/usage`), [state.sessionId, state.items]);
  const { value: status } = useLoaded(() => api("GET", "/status"), []);
  const parts = (value?.parts ?? []).filter((part) => part.tokens > 0);
  const used = value ? (value.tokens ?? parts.reduce((sum, part) => sum + part.tokens, 0)) : 0;
  const share = value?.window ? used / value.window : 0;
  const compact = () => page.trying(() => session.command("compact"));
  return html`<${Panel} title="Context" close=${close}>
    <${Trouble} problem=${problem} />
    ${
      value &&
      html`
      <p class="line"><strong>${Math.round(share * 100)}% full</strong><span class="num">${count(used)} of ${count(value.window)} tokens</span></p>
      <div class="bar" role="img" aria-label=${`${Math.round(share * 100)} percent of the window is in use`}>
        ${parts.map((part, place) => html`<span class=${`k${place % 7}`} style=${{ width: `${(part.tokens / (value.window || 1)) * 100}%` }}></span>`)}
      </div>
      <ul aria-label="What fills the window">
        ${parts.map((part, place) => html`<li class="line"><span><span class=${`swatch k${place % 7}`}></span>${NAMES[part.name] ?? part.name}${part.count > 1 ? html` <small>× ${count(part.count)}</small>` : ""}</span><span class="num">${count(part.tokens)}</span></li>`)}
      </ul>
      ${spent && html`<h3>Usage so far</h3><p class="line"><strong>${costOf(spent)}</strong><span class="num">${count(spent.requests)} requests</span></p><p class="muted">${tokensOf(spent)}</p>`}
      <h3>The conversation</h3>
      <${Lineage} page=${page} session=${session} compactions=${value.compactions ?? []} />
      ${state.state === "idle" && html`<div class="buttons"><button type="button" onClick=${compact}>Compact now</button></div>`}
      ${status && html`<h3>Workspace and approval</h3>
        <p>workspace: ${page.chosen.workspace || status.workspace}; approval: ${status.approval}</p>
        <h3>Sandbox for commands</h3><p>${status.sandbox}</p>`}
    `
    }
  </${Panel}>`;
}

function Lineage({ session, compactions }) {
  const { lineage } = session.state;
  return html`<ul aria-label="Lineage">
    ${lineage.map((each, place) => {
      const done = compactions.find((one) => one.session_id === each.id);
      return html`<li>
        <div class="line">
          <a href=${`#/s/${each.id}/m/0`}>${place === lineage.length - 1 ? "Now" : `Part ${place + 1}`}</a>
          <span class="num">${new Date(each.started_at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}</span>
        </div>
        <small>${count(each.messages)} messages${each.ended_at ? `; ended by ${each.end_reason === "compression" ? "a compaction" : each.end_reason}` : ""}${done ? ` on ${new Date(done.at_ms).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}` : ""}</small>
      </li>`;
    })}
  </ul>`;
}
