// Owns the dialog in which a person changes the password of their own account.
import { html, useRef, useState } from "./lib/base.js";
import { Dialog } from "./dialog.js";
import { api } from "./wire.js";

export const LEAST = 10; // characters

export default function Password({ page, close }) {
  const first = useRef(null);
  const [fields, setFields] = useState({ old: "", fresh: "", again: "" });
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const set = (name) => (event) => setFields({ ...fields, [name]: event.target.value });
  const differ = fields.again !== "" && fields.again !== fields.fresh;
  const ready = fields.old && fields.fresh.length >= LEAST && fields.again === fields.fresh;
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      await api("PUT", "/password", { old: fields.old, new: fields.fresh });
      close();
      page.say("The password is changed. Other browsers are signed out.");
    } catch (refused) {
      setProblem(`${refused.message} ${refused.next}`);
      setBusy(false);
      first.current.focus();
    }
  };
  return html`<${Dialog} title="Change your password" close=${close}>
    <form class="fields" onSubmit=${submit}>
      <input type="text" name="username" autocomplete="username" value=${page.account?.name ?? ""} readonly hidden />
      <label>The password until now<input ref=${first} type="password" autocomplete="current-password" value=${fields.old} onInput=${set("old")} /></label>
      <label>New password<input type="password" autocomplete="new-password" aria-describedby="password-about" value=${fields.fresh} onInput=${set("fresh")} /></label>
      <label>The new one again<input type="password" autocomplete="new-password" value=${fields.again} onInput=${set("again")} /></label>
      <small id="password-about">${LEAST} characters or more. Other browsers that are signed in to your account are signed out; tokens of programs stay.</small>
      ${differ && html`<p class="problem" role="status">The two new ones are not the same.</p>`}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div><button class="primary" disabled=${busy || !ready}>Change it</button></div>
    </form>
    <p class="muted"><small>Without a password, or when you have forgotten it, ask who runs this server for a new one.</small></p>
  <//>`;
}
