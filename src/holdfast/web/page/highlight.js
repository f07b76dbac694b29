// Owns the colours of code: loads the highlighter and the one language that a block is in, when it is needed.
import hljs from "./lib/highlight/core.js";
import { DOMPurify } from "./lib/base.js";

const LANGUAGES = new Set(
  (
    "bash c cpp csharp css diff dockerfile go ini java javascript json kotlin lua makefile markdown php powershell " +
    "python ruby rust shell sql swift typescript xml yaml"
  ).split(" "),
);
const OTHER_NAMES = {
  "c++": "cpp",
  "c#": "csharp",
  cs: "csharp",
  console: "shell",
  docker: "dockerfile",
  golang: "go",
  html: "xml",
  js: "javascript",
  jsx: "javascript",
  kt: "kotlin",
  md: "markdown",
  mjs: "javascript",
  ps1: "powershell",
  py: "python",
  rb: "ruby",
  rs: "rust",
  scss: "css",
  sh: "bash",
  svg: "xml",
  toml: "ini",
  ts: "typescript",
  tsx: "typescript",
  yml: "yaml",
  zsh: "bash",
};

/** The code as HTML with a class on each word that has a meaning; null for a language that is not known. */
export async function highlighted(text, name) {
  const language = OTHER_NAMES[name] ?? name;
  if (!LANGUAGES.has(language)) return null;
  if (!hljs.getLanguage(language)) {
    const { default: grammar } = await import(`./lib/highlight/${language}.js`);
    hljs.registerLanguage(language, grammar);
  }
  const { value } = hljs.highlight(text, { language, ignoreIllegals: true });
  return DOMPurify.sanitize(value, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"] });
}
