// Owns the first start: a server without a model asks for one, tries it, and says what came of it.
import { html, useState } from "./lib/base.js";
import { Outcome, useSettings } from "./settings.js";

const OFFERS = [
  { name: "openai", title: "OpenAI", needs: "key" },
  { name: "anthropic", title: "Anthropic", needs: "key" },
  { name: "openrouter", title: "OpenRouter", needs: "key" },
  { name: "ollama", title: "Ollama on this machine", needs: "" },
  { name: "llamacpp", title: "llama.cpp on this machine", needs: "" },
  { name: "other", title: "Another server that speaks OpenAI's protocol", needs: "address" },
];

export default function Welcome({ page }) {
  const settings = useSettings(page);
  const { found, saved, refused, busy, save } = settings;
  const [offer, setOffer] = useState(OFFERS[0]);
  const [key, setKey] = useState("");
  const [address, setAddress] = useState("");
  const [name, setName] = useState("");
  const fixed = (found.value?.items ?? []).filter((each) => each.key.startsWith("model.") && each.source === "environment");
  const use = (event) => {
    event.preventDefault();
    const changes = { "model.provider": offer.name === "other" ? "openai" : offer.name, "model.name": name.trim(), "model.base_url": offer.needs === "address" ? address.trim() : "" };
    if (key) changes["model.api_key"] = key;
    save(changes).then((after) => after && !after.model_problem && page.focusComposer());
  };
  return html`<section class="card welcome" aria-label="Set up a model">
    <h2>Which language model shall answer?</h2>
    ${fixed.length > 0 && html`<p class="muted">The environment sets ${fixed.map((each) => each.variable).join(", ")}; that is not changed here. Change it there and start again, or take it away.</p>`}
    <form class="fields" onSubmit=${use}>
      <label>Provider <select value=${offer.name} onChange=${(event) => setOffer(OFFERS.find((each) => each.name === event.target.value))}>
        ${OFFERS.map((each) => html`<option value=${each.name} selected=${each === offer}>${each.title}</option>`)}</select></label>
      ${offer.needs === "address" && html`<label>Address <input type="url" placeholder="http://127.0.0.1:8000/v1" value=${address} onInput=${(event) => setAddress(event.target.value)} /></label>`}
      ${offer.needs && html`<label>Key <input type="password" autocomplete="off" value=${key} onInput=${(event) => setKey(event.target.value)} /></label>`}
      <label>Model <input placeholder="empty: a good one of this provider" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
      ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
      <${Outcome} saved=${saved} />
      <div class="buttons"><button class="primary" disabled=${busy || (offer.needs === "key" && !key) || (offer.needs === "address" && !address.trim())}>${busy ? "Trying…" : "Use this model"}</button></div>
      <small>The key is kept on the server's machine, in a file that only its owner can read, and is sent only to the provider.</small>
    </form>
  </section>`;
}
