// Owns the memory view: each provider's state and deliveries, the deliveries that were set aside, a search with
// a way to forget, and the memories recalled for the last turn. `forget.js` forgets more at once.
import { html, useEffect, useState } from "./lib/base.js";
import { Forget, Forgotten, outcomeOf } from "./forget.js";
import { Panel, Trouble, ago, count, useLoaded } from "./panel.js";
import { api, query } from "./wire.js";

export default function Memory({ page, session, close }) {
  // How the providers stand, and what was forgotten, is of all people together.
  const ofOwner = (path) => () => (page.isOwner ? api("GET", path) : null);
  const status = useLoaded(ofOwner("/memory"), []);
  const aside = useLoaded(ofOwner("/memory/set-aside"), []);
  const forgotten = useLoaded(ofOwner("/memory/forgotten?limit=10"), []);
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && status.again(), 5_000);
    return () => clearInterval(timer);
  }, []);
  const again = () => {
    status.again();
    aside.again();
  };
  const providers = status.value?.providers ?? [];
  return html`<${Panel} title="Memory" close=${close}>
    <${Trouble} problem=${status.problem} />
    ${status.value && !providers.length && html`<p class="muted">No memory provider is in use.</p>`}
    <ul aria-label="Providers">${providers.map((each) => html`<${Provider} key=${each.name} provider=${each} />`)}</ul>
    <${SetAside} page=${page} found=${aside} again=${again} />
    <${Search} page=${page} done=${forgotten.again} />
    <${Recalled} session=${session} />
    <${Forget} page=${page} session=${session} done=${forgotten.again} />
    <${Forgotten} page=${page} found=${forgotten} />
  </${Panel}>`;
}

function Provider({ provider }) {
  const owed = provider.owed
    ? `${count(provider.owed)} owed, the oldest for ${ago(provider.oldest_age)}`
    : "nothing owed";
  return html`<li>
    <div class="line"><strong>${provider.name}</strong><span class="num">${provider.state}</span></div>
    <small>${owed}${provider.set_aside ? `; ${count(provider.set_aside)} set aside` : ""}${provider.recall_stuck ? "; a recall is stuck" : ""}</small>
    ${provider.only_here && html`<p class="muted">This memory is in files on the machine of this server; servers on other machines have one of their own and don't see it.</p>`}
    ${provider.last_error && html`<p class="problem">${provider.last_error}</p>`}
  </li>`;
}

function SetAside({ page, found, again }) {
  const items = found.value?.items ?? [];
  if (!items.length) return html`<${Trouble} problem=${found.problem} />`;
  const settle = (id, what) =>
    page.trying(async () => {
      await api("POST", `/memory/set-aside/${id}/${what}`, {});
      again();
    });
  return html`<h3>Set aside: could not be delivered, kept for your decision</h3>
    <ul aria-label="Set aside">${items.map(
      (each) => html`<li key=${each.id}>
      <div class="line"><strong>${each.provider}</strong><span class="num">${count(each.attempts)} attempts</span></div>
      <p class="problem">${each.last_error}</p>
      <div class="buttons"><button type="button" onClick=${() => settle(each.id, "retry")}>Try again</button><button type="button" onClick=${() => settle(each.id, "drop")}>Drop</button></div>
    </li>`,
    )}</ul>`;
}

function Search({ page, done }) {
  const [words, setWords] = useState("");
  const [gone, setGone] = useState([]);
  const [found, setFound] = useState(null);
  const [silent, setSilent] = useState([]); // why some provider did not answer
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    if (!words.trim()) return setFound(null);
    let current = true; // false once the search text has changed
    const timer = setTimeout(async () => {
      try {
        const { items, failed } = await api("GET", `/memory/search${query({ q: words.trim() })}`);
        if (!current) return;
        setFound(items);
        setSilent(Object.values(failed));
        setProblem(null);
      } catch (refused) {
        if (!current) return;
        setFound(null);
        setProblem(refused);
      }
    }, 250);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [words]);
  const forget = (each) =>
    page.trying(async () => {
      const record = await api("POST", "/memory/forget", { provider: each.provider, id: each.id });
      setGone([...gone, `${each.provider}/${each.id}`]);
      page.say(outcomeOf(record));
      done();
    });
  const left = (found ?? []).filter((each) => !gone.includes(`${each.provider}/${each.id}`));
  return html`<h3>Memories</h3>
    <input type="search" aria-label="Search memory" placeholder="Search memory" value=${words} onInput=${(event) => setWords(event.target.value)} />
    <${Trouble} problem=${problem} />
    ${found && silent.map((why) => html`<p class="problem" role="status">Not all of memory was searched: ${why}.</p>`)}
    ${found && !left.length && html`<p class="muted" role="status">Nothing is remembered about that.</p>`}
    <ul aria-label="Found in memory">${left.map(
      (each) => html`<li key=${`${each.provider}/${each.id}`}>
      <p class="detail">${each.text}</p>
      <div class="line"><small>${each.provider}${each.at ? `, ${new Date(each.at).toLocaleDateString()}` : ""}${each.speaker ? `, ${each.speaker}` : ""}${each.used ? `, used ${each.used === 1 ? "once" : `${count(each.used)} times`}` : ""}</small>${each.id && html`<button type="button" class="quiet" onClick=${() => forget(each)}>Forget</button>`}</div>
    </li>`,
    )}</ul>`;
}

function Recalled({ session }) {
  const state = session?.state;
  const turnId = state?.live?.turnId ?? state?.items.findLast((item) => item.turn_id)?.turn_id;
  const { value } = useLoaded(
    async () => (turnId ? api("GET", `${session.path}/turns/${encodeURIComponent(turnId)}`) : null),
    [turnId],
  );
  if (!turnId || !value) return null;
  return html`<h3>Recalled for the last turn</h3><${RecalledTexts} recalled=${value.recalled} />`;
}

const OUTCOMES = {
  late: "came too late for the turn before",
  missed: "did not answer in time",
  failed: "failed",
};

export function RecalledTexts({ recalled }) {
  if (!recalled.length) return html`<p class="muted">Nothing was recalled.</p>`;
  return recalled.map(
    (each) => html`<div>
    <small>${each.provider}${OUTCOMES[each.outcome] ? `: ${OUTCOMES[each.outcome]}` : ""}</small>
    ${each.cut ? html`<small>, ${each.cut} characters left out</small>` : ""}
    ${each.note ? html`<small>: ${each.note}</small>` : ""}
    <p class="detail">${each.text || (each.outcome === "answered" && !each.note ? "Nothing matched." : "")}</p>
  </div>`,
  );
}
