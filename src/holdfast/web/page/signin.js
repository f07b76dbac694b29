// Owns signing in: the fields for what the server takes (a token always, a password, an issuer of sign-ins), an
// invitation to make an account, what a sign-in that failed means, and where the token is found.
import { html, useEffect, useRef, useState } from "./lib/base.js";
import { ROOT, accept, signIn, signInByPassword } from "./wire.js";

const WHY = {
  link: "The link that you opened holds a token that is not this server's. It may be from another start of the program, from another data folder, or it was cut when it was copied. The token of an account (hfu_…) is not taken from a link: write it here.",
  "": "This browser is not signed in to this server.",
};
const FAILED = {
  "oidc-denied": "The sign-in was cancelled there. Nobody was let in.",
  "oidc-stale": "That sign-in was not begun in this browser, took longer than ten minutes, or was used already. Begin it again.",
  "oidc-disabled": "Your account here is disabled. Ask who runs this server.",
  "oidc-issuer": "The sign-in service could not be reached, or its answer could not be used. Try again; the server's log has the cause.",
  "oidc-failed": "What the sign-in service said did not fit this sign-in, so nobody was let in. Try again; the server's log has the cause.",
};

export default function SignIn({ why = "", ways = {} }) {
  if (why === "invited") return html`<${Invited} code=${location.hash.split("/")[3] ?? ""} ways=${ways} />`;
  const several = Boolean(ways.password || ways.oidc);
  return html`<main class="sign-in">
    <h1>Sign in</h1>
    ${FAILED[why] ? html`<p class="problem" role="alert">${FAILED[why]}</p>` : html`<p>${WHY[why] ?? WHY[""]}</p>`}
    ${ways.oidc && html`<p><a class="button primary" href=${`${ROOT}api/sign-in/oidc`}>Sign in with ${ways.oidc}</a></p>`}
    ${ways.password && html`<${ByPassword} />`}
    ${several && html`<h2>With a token</h2>`}
    <${ByToken} first=${!several} />
    <h2>Where the token is</h2>
    <ul>
      <li>The link that “holdfast web” prints in its terminal holds it, after “token=”. Each start prints it again.</li>
      <li>On the machine of the server it is in the file <code>web-token</code> of the data folder, or in the setting <code>web.token</code>.</li>
      <li>If you were given an account here, use its own token: it begins with <code>hfu_</code>.</li>
      <li>This page keeps it in a cookie for a year, which scripts can't read.</li>
    </ul>
  </main>`;
}

/** Makes the account of an invitation, and signs in to it. */
function Invited({ code, ways }) {
  const field = useRef(null);
  const made = useRef(null); // the token of the account: an invitation counts once, and signing in may fail
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [token, setToken] = useState("");
  useEffect(() => field.current.focus(), [token]);
  const { busy, submit, said } = useSignIn(
    async () => {
      made.current ??= (await accept(code, name.trim(), password || null)).secret;
      await signIn(made.current);
      setToken(made.current);
      return true;
    },
    field,
    "The account was made, but this browser could not be signed in. Try again here.",
  );
  if (token)
    return html`<main class="sign-in">
      <h1>Welcome, ${name.trim()}</h1>
      <p>This browser is signed in for 30 days. Keep this token where you keep passwords: it signs you in after that, in another browser, and in programs. It is shown this once.</p>
      <form class="reply" onSubmit=${(event) => (event.preventDefault(), location.replace(location.pathname))}>
        <input ref=${field} readonly aria-label="Your token" value=${token} onFocus=${(event) => event.target.select()} />
        <button class="primary">I have kept it</button>
      </form>
    </main>`;
  return html`<main class="sign-in">
    <h1>You are invited</h1>
    <p>Choose a name, and you have an account on this server: conversations, memory and files of your own. The invitation counts once.</p>
    <form class="fields" onSubmit=${submit}>
      <label>Your name<input ref=${field} autocomplete="username" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
      <label>A password, if you want one<input type="password" autocomplete="new-password" aria-describedby="join-password" value=${password} onInput=${(event) => setPassword(event.target.value)} /></label>
      <small id="join-password">10 characters or more. Without one you sign in with the token that is shown next.</small>
      <div><button class="primary" disabled=${busy || !name.trim()}>Join</button></div>
    </form>
    ${said}
    ${ways.oidc && html`<p>Or <a href=${`${ROOT}api/sign-in/oidc?invitation=${encodeURIComponent(code)}`}>join with ${ways.oidc}</a>, and sign in there from then on.</p>`}
  </main>`;
}

/** Runs a sign-in: what happens with the form, and what it says when it is refused. `run` gives true to stay. */
function useSignIn(run, field, refusal) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      if ((await run()) !== true) location.replace(location.pathname);
    } catch (refused) {
      setProblem(refused);
      setBusy(false);
      field.current.focus();
    }
  };
  const words = problem && (problem.status === 401 ? refusal : `${problem.message} ${problem.next}`);
  return { busy, submit, said: words && html`<p class="problem" role="alert">${words}</p>` };
}

function ByPassword() {
  const first = useRef(null);
  const last = useRef(null);
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  useEffect(() => first.current.focus(), []);
  const { busy, submit, said } = useSignIn(
    () => signInByPassword(name.trim(), password),
    last,
    "This name and this password do not belong together. Nothing was changed.",
  );
  return html`<form class="fields" onSubmit=${submit}>
      <label>Name<input ref=${first} name="username" autocomplete="username" autocapitalize="none" spellcheck="false" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
      <label>Password<input ref=${last} name="password" type="password" autocomplete="current-password" value=${password} onInput=${(event) => setPassword(event.target.value)} /></label>
      <div><button class="primary" disabled=${busy || !name.trim() || !password}>Sign in</button></div>
    </form>
    ${said}`;
}

function ByToken({ first }) {
  const field = useRef(null);
  const [token, setToken] = useState("");
  useEffect(() => {
    if (first) field.current.focus();
  }, []);
  const { busy, submit, said } = useSignIn(
    () => {
      // A whole link may be pasted too.
      const given = token.trim();
      return signIn(new URLSearchParams(given.split("?")[1] ?? "").get("token") ?? given);
    },
    field,
    "This is not the token of this server. Nothing was changed.",
  );
  return html`<form class="reply" onSubmit=${submit}>
      <input ref=${field} type="password" autocomplete="current-password" aria-label="Token" placeholder="The token, or the whole link" value=${token} onInput=${(event) => setToken(event.target.value)} />
      <button class=${first ? "primary" : ""} disabled=${busy || !token.trim()}>Sign in</button>
    </form>
    ${said}`;
}
