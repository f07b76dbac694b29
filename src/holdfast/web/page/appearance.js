// Owns how the page looks for this browser: light or dark, the size of the text, and whether it notifies.
const KEY = "holdfast.appearance";
const DEFAULTS = { theme: "system", size: "normal", notify: false };

export function appearance() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return DEFAULTS;
  }
}

export function change(what) {
  const next = { ...appearance(), ...what };
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // A browser that keeps nothing: it counts until the page is loaded again.
  }
  apply(next);
  return next;
}

export function apply({ theme, size } = appearance()) {
  const root = document.documentElement;
  root.dataset.theme = theme;
  root.dataset.size = size;
}
