// Owns the composer: the draft, which survives a reload, attachments by drop, paste or choice, the mode of a
// message while a turn runs, and errors of sending. A text leaves the composer only when the server has stored it; one
// that could not reach the server is sent again when the connection is back.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib/base.js";

const LARGEST = 12_000_000;
const TEXT_LARGEST = 1_000_000;
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export const MODES = [
  { name: "queue", label: "Queue", hint: "waits until this turn is over" },
  { name: "steer", label: "Steer", hint: "joins this turn at its next step" },
  { name: "interrupt", label: "Interrupt", hint: "stops this turn and is answered next" },
];

const drafts = {
  read: (id) => {
    try {
      return localStorage.getItem(`holdfast.draft.${id}`) ?? "";
    } catch {
      return "";
    }
  },
  write: (id, text) => {
    try {
      if (text) localStorage.setItem(`holdfast.draft.${id}`, text);
      else localStorage.removeItem(`holdfast.draft.${id}`);
    } catch {
      // A browser that keeps nothing: the draft lives as long as the tab.
    }
  },
};
export { drafts };

/** What a message is known by on the server. It is kept beside the draft: a reload does not make it another message. */
const keyOf = (id, same) => {
  const kept = drafts.read(`${id}.key`);
  const [known, before] = kept ? JSON.parse(kept) : [];
  return before === same ? known : (crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`);
};

// No answer, or a proxy's word that there is no server behind it.
const GONE = new Set([0, 502, 503, 504]);
const AGAIN_MS = 5000;
const DOCUMENT = /\.(?:pdf|docx|xlsx|pptx)$/i;

function read(file) {
  const picture = PICTURES.includes(file.type);
  const document = DOCUMENT.test(file.name);
  if (!picture && !document && file.size > TEXT_LARGEST)
    return Promise.reject(new Error(`${file.name} is larger than 1 MB.`));
  if (file.size > LARGEST) return Promise.reject(new Error(`${file.name} is larger than 12 MB.`));
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(new Error(`${file.name} could not be read.`));
    reader.onload = () => {
      if (picture)
        return resolve({ name: file.name, part: { type: "image_url", image_url: { url: reader.result } } });
      // The server reads a document: it becomes text with the numbers of its pages.
      if (document)
        return resolve({ name: file.name, part: { type: "file", file: { filename: file.name, file_data: reader.result } } });
      const text = new TextDecoder("utf-8").decode(reader.result);
      if (text.includes("\u0000"))
        return reject(new Error(`${file.name} is neither text, a picture (PNG, JPEG, GIF or WebP) nor a document (PDF, DOCX, XLSX or PPTX).`));
      return resolve({ name: file.name, part: { type: "text", text: `File ${file.name}:\n${text}` } });
    };
    if (picture || document) reader.readAsDataURL(file);
    else reader.readAsArrayBuffer(file);
  });
}

/** `id` names the draft; it may become another one while the same conversation, the `owner`, stays. */
export function Composer({ id, owner = id, running, blocked, connected, editing, cancelEdit, send, stop, field, tools }) {
  const [text, setText] = useState(() => editing?.text ?? drafts.read(id));
  const [attached, setAttached] = useState(() => editing?.parts ?? []);
  const [mode, setMode] = useState("queue");
  const [sending, setSending] = useState(null); // what is on its way
  const [problem, setProblem] = useState(null);
  const [over, setOver] = useState(false);
  const [held, setHeld] = useState(null); // how a message goes that waits for the server
  const wasConnected = useRef(connected);
  const files = useRef(null);
  const key = useRef(null);

  useEffect(() => {
    setText(editing?.text ?? drafts.read(id));
    setAttached(editing?.parts ?? []);
    setProblem(null);
    setHeld(null);
    if (editing || matchMedia("(hover: hover)").matches) field.current?.focus();
  }, [owner, editing]);
  useEffect(() => {
    if (!editing) setText((now) => now || drafts.read(id));
  }, [id]);
  useEffect(() => {
    if (!editing) drafts.write(id, text);
    if (!text) drafts.write(`${id}.key`, "");
  }, [text]);
  useEffect(() => {
    const isBack = connected && !wasConnected.current;
    wasConnected.current = connected;
    if (!connected || !held) return;
    const timer = setTimeout(() => submit(held), isBack ? 0 : AGAIN_MS);
    return () => clearTimeout(timer);
  }, [connected, held]);
  useLayoutEffect(() => {
    const area = field.current;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);

  const add = async (list) => {
    for (const file of list) {
      try {
        const one = await read(file);
        setAttached((all) => [...all, one]);
        setProblem(null);
      } catch (refused) {
        setProblem({ message: refused.message, next: "The rest of your message is still here." });
      }
    }
  };
  const submit = async (how = mode) => {
    const words = text.trim();
    if ((!words && !attached.length) || sending !== null || blocked) return;
    const content = attached.length
      ? [...(words ? [{ type: "text", text: words }] : []), ...attached.map((each) => each.part)]
      : words;
    const same = JSON.stringify(content);
    // The same text sent again after a failure is the same message: the server stores it once.
    if (key.current?.same !== same) key.current = { same, key: keyOf(id, same) };
    if (!attached.length && !editing) drafts.write(`${id}.key`, JSON.stringify([key.current.key, same]));
    setSending(text);
    setProblem(null);
    setHeld(null);
    try {
      await send(content, running ? how : "queue", key.current.key);
      key.current = null;
      drafts.write(id, "");
      drafts.write(`${id}.key`, "");
      // Text typed during the request is the next message.
      setText((now) => (now.startsWith(text) ? now.slice(text.length) : now));
      setAttached([]);
      setMode("queue");
    } catch (refused) {
      setProblem(refused);
      if (GONE.has(refused.status)) setHeld(how);
    } finally {
      setSending(null);
      // The focus stays where it is if the person, or an ask, has moved it.
      const at = document.activeElement;
      if (!at || at === document.body || field.current?.form.contains(at)) field.current?.focus();
    }
  };
  const keep = () => {
    setHeld(null);
    setProblem(null);
  };
  // What a person goes on writing is theirs to send.
  const onInput = (event) => {
    setText(event.target.value);
    if (held) keep();
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !event.altKey) {
      event.preventDefault();
      submit(event.ctrlKey || event.metaKey ? "steer" : mode);
    } else if (event.altKey && ["1", "2", "3"].includes(event.key) && running) {
      event.preventDefault();
      setMode(MODES[Number(event.key) - 1].name);
    } else if (event.key === "Escape" && editing) {
      event.stopPropagation();
      cancelEdit();
    }
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    add([...event.dataTransfer.files]);
  };
  const paste = (event) => {
    const given = [...(event.clipboardData?.files ?? [])];
    if (given.length) {
      event.preventDefault();
      add(given);
    }
  };
  const hint = MODES.find((each) => each.name === mode).hint;
  return html`<form class=${`composer${over ? " over" : ""}`} aria-label="Write a message" onSubmit=${(
    event,
  ) => {
    event.preventDefault();
    submit();
  }}
    onDragOver=${(event) => {
      event.preventDefault();
      setOver(true);
    }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    ${
      held
        ? html`<div class="held" role="alert"><span><strong>Not sent yet.</strong> It is sent, once, when the server ${connected ? "takes it" : "can be reached again"}.</span>
          <button type="button" class="quiet" onClick=${() => (keep(), field.current.focus())}>Don't send</button></div>`
        : problem && html`<div class="problem" role="alert"><strong>Not sent.</strong> ${problem.message} ${problem.next}</div>`
    }
    ${
      editing &&
      html`<div class="editing"><span>You edit an earlier message. What followed it stays in the original conversation.</span>
      <button type="button" class="quiet" onClick=${cancelEdit}>Cancel</button></div>`
    }
    ${
      attached.length > 0 &&
      html`<ul class="attachments" aria-label="Attachments">
      ${attached.map(
        (each, place) => html`<li key=${place}>
        ${each.part.type === "image_url" ? html`<img src=${each.part.image_url.url} alt="" />` : html`<span aria-hidden="true">📄</span>`}
        <span class="clip">${each.name}</span>
        <button type="button" class="quiet" aria-label=${`Remove ${each.name}`} onClick=${() => setAttached(attached.filter((_, other) => other !== place))}>×</button>
      </li>`,
      )}
    </ul>`
    }
    <textarea ref=${field} id="message" rows="1" aria-label="Message" placeholder=${running ? "Say something while it works…" : "Ask anything…"}
      data-sending=${sending} value=${text} onInput=${onInput} onKeyDown=${onKeyDown} onPaste=${paste} enterkeyhint="send"></textarea>
    <div class="composer-bar">
      <button type="button" class="icon" aria-label="Attach files" title="Attach files" onClick=${() => files.current.click()}>
        <svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 4v12M4 10h12" /></svg>
      </button>
      <input ref=${files} type="file" multiple hidden aria-label="Files to attach" onChange=${(event) => {
        add([...event.target.files]);
        event.target.value = "";
      }} />
      ${
        running &&
        html`<fieldset class="modes" title=${hint}>
        <legend class="sr">How this message meets the running turn</legend>
        ${MODES.map((each) => html`<label key=${each.name} title=${each.hint}><input type="radio" name="mode" value=${each.name} checked=${mode === each.name} onChange=${() => setMode(each.name)} /><span>${each.label}</span></label>`)}
      </fieldset><span class="mode-hint muted">${hint}</span>`
      }
      ${!running && tools}
      <span class="space"></span>
      ${running && html`<button type="button" class="stop" onClick=${stop} title="Stop (Ctrl+.)"><span class="square" aria-hidden="true"></span>Stop</button>`}
      <button type="submit" class="send" disabled=${sending !== null || blocked || (!text.trim() && !attached.length)} aria-label="Send" title="Send (Enter)">
        <svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 16V4M5 9l5-5 5 5" /></svg>
      </button>
    </div>
  </form>`;
}
