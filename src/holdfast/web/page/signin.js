// Owns signing in: a field for the token, what a link that failed means, and where the token is found.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { signIn } from "./wire.js";

const WHY = {
  link: "The link that you opened holds a token that is not this server's. It may be from another start of the program, from another data folder, or it was cut when it was copied.",
  "": "This browser is not signed in to this server.",
};

export default function SignIn({ why = "" }) {
  const field = useRef(null);
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  useEffect(() => field.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      // A whole link may be pasted too.
      const given = token.trim();
      await signIn(new URLSearchParams(given.split("?")[1] ?? "").get("token") ?? given);
      location.replace(location.pathname);
    } catch (refused) {
      setProblem(refused);
      setBusy(false);
      field.current.focus();
    }
  };
  return html`<main class="sign-in">
    <h1>Sign in</h1>
    <p>${WHY[why] ?? WHY[""]}</p>
    <form class="reply" onSubmit=${submit}>
      <input ref=${field} type="password" autocomplete="current-password" aria-label="Token" placeholder="The token, or the whole link" value=${token} onInput=${(event) => setToken(event.target.value)} />
      <button class="primary" disabled=${busy || !token.trim()}>Sign in</button>
    </form>
    ${problem && html`<p class="problem" role="alert">${problem.status === 401 ? "This is not the token of this server. Nothing was changed." : `${problem.message} ${problem.next}`}</p>`}
    <h2>Where the token is</h2>
    <ul>
      <li>The link that “holdfast web” prints in its terminal holds it, after “token=”. Each start prints it again.</li>
      <li>On the machine of the server it is in the file <code>web-token</code> of the data folder, or in the setting <code>web.token</code>.</li>
      <li>This page keeps it in a cookie for a year, which scripts can't read.</li>
    </ul>
  </main>`;
}
