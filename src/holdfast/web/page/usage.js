// Owns the usage view: tokens and cost by day, by model or by conversation. A price that is not known is said so.
import { html, useState } from "./lib/base.js";
import { Panel, Trouble, count, useLoaded } from "./panel.js";
import { api, query } from "./wire.js";

const BY = { day: "By day", model: "By model", conversation: "By conversation", purpose: "By purpose" };

/** Dollars, or that some price is not known. */
export function costOf(total) {
  const known = Number(total.known_cost);
  const dollars = `$${known >= 1 || known === 0 ? known.toFixed(2) : known.toPrecision(2)}`;
  if (total.cost !== null) return dollars;
  return known ? `at least ${dollars}` : "price not known";
}

export const tokensOf = (total) => `${count(total.input_tokens)} tokens read${total.cached_tokens ? ` (${count(total.cached_tokens)} from a cache)` : ""}, ${count(total.output_tokens)} written`;

export default function Usage({ close }) {
  const [by, setBy] = useState("day");
  const [days, setDays] = useState(30);
  const { value, problem } = useLoaded(() => api("GET", `/usage${query({ by, days })}`), [by, days]);
  const groups = value?.groups ?? [];
  const most = Math.max(1, ...groups.map(({ total }) => total.input_tokens + total.output_tokens));
  const nameOf = (group) => (by === "day" ? new Date(`${group.key}T12:00`).toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" }) : group.title || group.key);
  return html`<${Panel} title="Usage" close=${close}>
    <div class="fields two">
      <label>Group <select value=${by} onChange=${(event) => setBy(event.target.value)}>${Object.entries(BY).map(([key, words]) => html`<option value=${key} selected=${key === by}>${words}</option>`)}</select></label>
      <label>Time <select value=${days} onChange=${(event) => setDays(Number(event.target.value))}>${[1, 7, 30, 90, 365].map((each) => html`<option value=${each} selected=${each === days}>${each === 1 ? "today" : `${each} days`}</option>`)}</select></label>
    </div>
    <${Trouble} problem=${problem} />
    ${value && html`<p class="line total"><strong>${costOf(value.total)}</strong><span class="num">${count(value.total.requests)} requests</span></p>
      <p class="muted">${tokensOf(value.total)}</p>
      ${value.total.unpriced_requests > 0 && html`<p class="muted"><small>For ${count(value.total.unpriced_requests)} requests the price is not known. The settings model.price_input and model.price_output set it.</small></p>`}`}
    ${value && !groups.length && html`<p class="muted">Nothing was used in this time.</p>`}
    <ul aria-label=${BY[by]}>${groups.map((group) => html`<li key=${group.key}>
      <div class="line"><span class="clip">${by === "conversation" && group.key && !group.title.startsWith("(") ? html`<a href=${`#/s/${encodeURIComponent(group.key)}`}>${nameOf(group)}</a>` : nameOf(group)}</span><span class="num">${costOf(group.total)}</span></div>
      <div class="bar thin" aria-hidden="true"><span class="k1" style=${{ width: `${((group.total.input_tokens + group.total.output_tokens) / most) * 100}%` }}></span></div>
      <small>${tokensOf(group.total)}</small>
    </li>`)}</ul>
  <//>`;
}
