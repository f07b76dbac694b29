// Owns how two texts are compared: lines with a sign each. A library compares; long stretches that are the same
// are left out.
import Diff from "./lib/diff.js";

const AROUND = 3;

/** The lines of a change: `{sign: "+" | "-" | " " | "@", text}`. */
export function changedLines(before, after) {
  const lines = Diff.diffLines(before, after).flatMap(({ added, removed, value }) =>
    value
      .replace(/\n$/, "")
      .split("\n")
      .map((text) => ({ sign: added ? "+" : removed ? "-" : " ", text })),
  );
  return closeTo(lines.filter((line, place) => line.text || line.sign !== " " || place));
}

/** The lines with only a few around each change; "@" stands for what is left out. */
function closeTo(lines) {
  const near = lines.map((_, place) =>
    lines.slice(Math.max(0, place - AROUND), place + AROUND + 1).some(({ sign }) => sign !== " "),
  );
  const kept = [];
  lines.forEach((line, place) => {
    if (near[place]) kept.push(line);
    else if (kept.at(-1)?.sign !== "@") kept.push({ sign: "@", text: "⋯" });
  });
  return kept;
}

/** The lines of a patch in the unified form. */
export function patchLines(patch) {
  return patch
    .replace(/\n$/, "")
    .split("\n")
    .filter((line) => !/^(?:---|\+\+\+|diff |index |\\)/.test(line))
    .map((line) => (line.startsWith("@@") ? { sign: "@", text: line } : { sign: line[0] || " ", text: line.slice(1) }));
}
