// Owns which messages of a conversation's state are shown: the stored messages and those that stream, each once and under a
// key that stays when a turn moves from the stream to the store. Pure.

const isSummary = (item) => Boolean(item.message.holdfast?.summary);

/** Messages in order, each with a key that stays when a turn moves from the stream to the store. */
export function visible(state) {
  const turns = state.hasAfter ? [] : [...state.past, ...(state.live ? [state.live] : [])];
  const whole = new Set(turns.filter((each) => each.whole).map((each) => each.turnId));
  // A compaction copies messages that the session before has; a branch has the only copy.
  const first = state.lineage[0]?.id ?? state.sessionId;
  const stored = state.items.filter(
    (item) => !whole.has(item.turn_id) && !(item.carried && item.session_id !== first),
  );
  const counts = new Map();
  const keyed = (item, turnId) => {
    const owner = turnId ?? item.session_id ?? "";
    const name = `${owner}/${item.message.role}`;
    const count = counts.get(name) ?? 0;
    counts.set(name, count + 1);
    const key = turnId ? `${name}/${count}` : `${owner}/${item.seq}`;
    return { ...item, turn_id: turnId, key };
  };
  const shown = stored.map((item) =>
    isSummary(item) ? { ...item, key: `${item.session_id}/summary` } : keyed(item, item.turn_id),
  );
  for (const each of turns) {
    const have = each.whole ? [] : shown.filter((item) => item.turn_id === each.turnId);
    for (const item of remaining(each, have)) shown.push({ ...keyed(item, each.turnId), streamed: true });
  }
  return shown;
}

/** The items of a partly seen turn that the store did not have when it was loaded. */
function remaining(live, have) {
  const steps = have.filter(
    (item) => item.message.role === "assistant" && !item.message.holdfast?.superseded,
  ).length;
  const results = new Set(have.map((item) => item.message.tool_call_id).filter(Boolean));
  const words = new Set(
    have.filter((item) => item.message.role === "user").map((item) => item.message.content),
  );
  const calls = new Set(have.flatMap((item) => (item.message.tool_calls ?? []).map((call) => call.id)));
  return live.items.filter(({ message, step, open }) => {
    if (message.role === "assistant") {
      const known = message.tool_calls?.every((call) => calls.has(call.id));
      return !(step && step <= steps) && !(known && !message.content && !open);
    }
    if (message.role === "tool") return !results.has(message.tool_call_id);
    return message.role !== "user" || !words.has(message.content);
  });
}

/** The tool call with this id, as the model made it. */
export function callOf(state, callId) {
  const turns = [state.live, ...state.past].filter(Boolean);
  return [...turns.flatMap((each) => each.items), ...state.items]
    .flatMap(({ message }) => message.tool_calls ?? [])
    .find((call) => call.id === callId);
}
