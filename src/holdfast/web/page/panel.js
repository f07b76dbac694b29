// Owns the frame of the panels at the right: heading, close button, and loading of data.
import { html, useEffect, useRef, useState } from "./lib/base.js";

export function Panel({ title, close, children }) {
  const box = useRef(null);
  useEffect(() => box.current.focus(), []);
  return html`<aside class="panel" aria-label=${title} tabindex="-1" ref=${box}>
    <div class="panel-head"><h2>${title}</h2><button type="button" class="icon" aria-label=${`Close ${title}`} onClick=${close}>×</button></div>
    ${children}
  </aside>`;
}

/** The result of `load`, loaded again whenever one of `on` changes: `{value, problem, again}`. */
export function useLoaded(load, on) {
  const [found, setFound] = useState({ value: null, problem: null });
  const again = async () => {
    try {
      setFound({ value: await load(), problem: null });
    } catch (problem) {
      setFound((before) => ({ ...before, problem }));
    }
  };
  useEffect(() => {
    again();
  }, on);
  return { ...found, again };
}

export function Trouble({ problem }) {
  return problem && html`<p class="problem" role="alert">${problem.message} ${problem.next}</p>`;
}

export const count = (number) => (number ?? 0).toLocaleString();
export const ago = (secondsAgo) => {
  if (secondsAgo === null || secondsAgo === undefined) return "";
  if (secondsAgo < 90) return `${Math.round(secondsAgo)} s`;
  if (secondsAgo < 5400) return `${Math.round(secondsAgo / 60)} min`;
  if (secondsAgo < 172_800) return `${Math.round(secondsAgo / 3600)} h`;
  return `${Math.round(secondsAgo / 86_400)} days`;
};
