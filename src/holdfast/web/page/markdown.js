// Owns how text of a model becomes a document: markdown in blocks, sanitised, code and maths set apart. A
// block that is finished is never rendered again while the rest of the answer streams in.
import { DOMPurify, Marked, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib/base.js";

const TAGS =
  "a b blockquote br code del details em h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre s span strong sub " +
  "summary sup table tbody td th thead tr u ul";
const HARMLESS = new RegExp(`^</?(?:${TAGS.split(" ").join("|")})(?:\\s*/?)>$`, "i");
const CLASS = /^(?:language-[\w+#.-]{1,30}|maths(?: display)?)$/;
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,[a-z0-9+/=\s]+$/i;
const ADDRESS = /^(?:https?:|mailto:)/i;
const LONGEST_CODE = 60_000;
const FOLD_LINES = 14;
const PREVIEWED = new Set(["html", "svg", "mermaid", "csv", "tsv"]);

const escape = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

const maths = (name, level, patterns, display) => ({
  name,
  level,
  start: (text) => (display ? /\n(?=\$\$|\\\[)/ : /\$|\\[([]/).exec(text)?.index,
  tokenizer(text) {
    for (const pattern of patterns) {
      const found = pattern.exec(text);
      if (found) return { type: name, raw: found[0], text: found[1].trim() };
    }
    return undefined;
  },
  renderer: (token) => `<span class="maths${display ? " display" : ""}">${escape(token.text)}</span>`,
});

function parser() {
  return new Marked({
    gfm: true,
    extensions: [
      maths("mathsBlock", "block", [/^\$\$([^$]+?)\$\$(?:\n|$)/, /^\\\[([\s\S]+?)\\\](?:\n|$)/], true),
      maths(
        "mathsInline",
        "inline",
        [
          /^\$\$([^$\n]+?)\$\$/,
          /^\\\((.+?)\\\)/,
          /^\\\[([\s\S]+?)\\\]/,
          /^\$(?![\s\d])([^$\n]*?[^\s$\\])\$(?![\w$])/,
        ],
        false,
      ),
    ],
    renderer: {
      // Tags that format are kept; all others are shown as what they are.
      html: ({ text }) => text.replace(/<[^>]*>|[<>]/g, (tag) => (HARMLESS.test(tag) ? tag : escape(tag))),
      checkbox: ({ checked }) => `<span>${checked ? "☑" : "☐"}</span> `,
      image({ href, text }) {
        // A picture elsewhere would tell its server that this was read; it is shown as a link.
        const name = escape(text || "image");
        return PICTURE.test(href)
          ? `<img src="${escape(href)}" alt="${name}">`
          : `<a href="${escape(href)}">${name}</a>`;
      },
    },
  });
}

function sanitiser() {
  const purify = DOMPurify(window);
  purify.addHook("uponSanitizeAttribute", (node, data) => {
    if (data.attrName === "class" && !CLASS.test(data.attrValue)) data.keepAttr = false;
    if (data.attrName === "src" && !PICTURE.test(data.attrValue)) data.keepAttr = false;
    if (data.attrName === "href" && !ADDRESS.test(data.attrValue)) data.keepAttr = false;
  });
  purify.addHook("afterSanitizeAttributes", (node) => {
    if (node.tagName === "A" && node.hasAttribute("href")) {
      node.setAttribute("target", "_blank");
      node.setAttribute("rel", "noopener noreferrer nofollow");
    }
  });
  const allowed = {
    ALLOWED_TAGS: TAGS.split(" "),
    ALLOWED_ATTR: ["align", "alt", "class", "colspan", "href", "rowspan", "src", "start", "title"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  };
  return (dirty) => purify.sanitize(dirty, allowed);
}

const marked = parser();
let clean = null;
const sanitised = (dirty) => (clean ??= sanitiser())(dirty);

/** The blocks of a text; `before` is what an earlier, shorter text gave, and its finished blocks are kept. */
export function blocksOf(text, before = null) {
  const kept =
    before && text.startsWith(before.text.slice(0, before.done)) ? before : { blocks: [], done: 0, count: 0 };
  const finished = kept.blocks.slice(0, kept.count ?? 0);
  const tokens = marked.lexer(text.slice(kept.done)).filter((token) => token.type !== "def");
  const tail = [];
  let place = kept.done;
  let done = kept.done;
  let count = finished.length;
  const lastWords = tokens.findLastIndex((token) => token.type !== "space");
  tokens.forEach((token, index) => {
    place += token.raw.length;
    if (token.type !== "space") tail.push(token);
    // The last block may still grow, and so may one that only white space follows.
    if (index < lastWords) {
      done = place;
      count = finished.length + tail.length;
    }
  });
  return { text, done, count, blocks: [...finished, ...tail] };
}

const FORMULA_BEGUN = /^(?:\$\$(?![^$\n]*\$\$)|\\\[)\s*/;

/** The TeX of a displayed formula whose end has not come yet; null for any other block. */
export const formulaBegun = ({ type, raw }) =>
  type === "paragraph" && FORMULA_BEGUN.test(raw) ? raw.replace(FORMULA_BEGUN, "").trimEnd() : null;

/** Text of a model. While it is `open`, its last block is still being written. */
export function Markdown({ text, open = false }) {
  const kept = useRef(null);
  const parsed = useMemo(() => {
    // A whole text is read at once: a link may be defined below the place where it is used.
    kept.current = blocksOf(text, open ? kept.current : null);
    return kept.current;
  }, [text, open]);
  const last = parsed.blocks.length - 1;
  return html`<div class="prose">
    ${parsed.blocks.map((token, index) =>
      token.type === "code"
        ? html`<${Code} key=${index} text=${token.text} language=${token.lang ?? ""} open=${open && index === last} />`
        : html`<${Block} key=${index} token=${token} open=${open && index === last} />`,
    )}
  </div>`;
}

let typeset = null; // once the library is loaded

function Block({ token, open }) {
  const element = useRef(null);
  const begun = open ? formulaBegun(token) : null;
  const inner = useMemo(
    () => (begun === null ? sanitised(marked.parser([token])) : `<span class="maths display">${escape(begun)}</span>`),
    [token.raw, begun],
  );
  // Before the browser paints: a formula of a block that grows would otherwise be seen as TeX at each step.
  useLayoutEffect(() => {
    const found = begun === null ? element.current.querySelectorAll(".maths") : [];
    if (!found.length) return;
    if (typeset) typeset(found);
    else import("./maths.js").then((maths) => (typeset = maths.typeset)(found)).catch(() => {});
  }, [inner]);
  return html`<div ref=${element} dir="auto" dangerouslySetInnerHTML=${{ __html: inner }}></div>`;
}

/** A block of code. While it is `open` it is still being written; `fold` shows its beginning alone at first. */
export function Code({ text, language = "", open = false, title = "", fold = false }) {
  const [coloured, setColoured] = useState(null);
  const [wrapped, setWrapped] = useState(false);
  const [folded, setFolded] = useState(fold && text.split("\n").length > FOLD_LINES);
  const name = language.trim().split(/\s/)[0].toLowerCase();
  useEffect(() => {
    setColoured(null);
    if (open || !name || text.length > LONGEST_CODE) return undefined;
    let wanted = true;
    import("./highlight.js")
      .then(({ highlighted }) => highlighted(text, name))
      .then((found) => wanted && setColoured(found))
      .catch(() => {});
    return () => {
      wanted = false;
    };
  }, [text, name, open]);
  const label = name ? `Code, ${name}` : "Code";
  const lines = text.split("\n").length;
  const inner =
    coloured === null
      ? html`<code>${text}</code>`
      : html`<code dangerouslySetInnerHTML=${{ __html: coloured }}></code>`;
  return html`<div class=${`code${wrapped ? " wrapped" : ""}${folded ? " folded" : ""}`}>
    <div class="code-head">
      <span class="clip">${title || name || "text"}</span><span class="space"></span>
      ${!open && PREVIEWED.has(name) && html`<button type="button" class="quiet" onClick=${(event) => showPreview(event, text, name)}>Preview</button>`}
      <button type="button" class="quiet" aria-pressed=${wrapped} onClick=${() => setWrapped(!wrapped)}>Wrap</button>
      ${!open && lines > FOLD_LINES && html`<button type="button" class="quiet" aria-pressed=${folded} onClick=${() => setFolded(!folded)}>Fold</button>`}
      ${!open && html`<button type="button" class="quiet" onClick=${(event) => expand(event, { text, inner, label })}>Expand</button>`}
      <${Copy} text=${() => text} label="Copy code" />
    </div>
    <pre tabindex="0" role="region" aria-label=${label}>${inner}</pre>
    ${folded && html`<button type="button" class="quiet more" onClick=${() => setFolded(false)}>Show all ${lines.toLocaleString()} lines</button>`}
  </div>`;
}

const expand = (event, shown) => {
  const opener = event.currentTarget;
  import("./sheet.js").then(({ showCode }) => showCode(opener, shown));
};

const showPreview = (event, text, name) => {
  const opener = event.currentTarget;
  import("./sheet.js").then(({ showPreview: show }) => show(opener, text, name));
};

export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.body.appendChild(Object.assign(document.createElement("textarea"), { value: text }));
  area.select();
  document.execCommand("copy");
  area.remove();
  return undefined;
}

export function Copy({ text, label, children = "Copy" }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await copyText(text());
      setDone("Copied");
    } catch {
      setDone("Not allowed");
    }
    setTimeout(() => setDone(""), 1500);
  };
  return html`<button type="button" class="quiet" aria-label=${label} onClick=${copy}>${done || children}</button>`;
}
