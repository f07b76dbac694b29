// Owns the running turn as it streams: the user's message, each answer with its tool calls, results and live
// output, in the shape of stored messages. Pure functions; `fold.js` maps events to them.

export const OUTPUT_KEPT = 20_000;

export const turn = (event, whole) => ({
  turnId: event.turn_id,
  began: event.at ?? null,
  whole, // seen from its beginning; else what came before is only in the store
  items: [],
  tools: {},
  doing: "thinking",
  retry: null,
});

export const said = (text, extra = {}) => ({ message: { role: "user", content: text }, ...extra });

export function withAnswer(live, at, change) {
  const items = live.items.slice();
  const last = items.at(-1);
  const open = last?.open ? items.pop() : { at, open: true, message: { role: "assistant", content: "" } };
  items.push({ ...open, message: change(open.message) });
  return { ...live, items, retry: null };
}

export const closedAnswer = (items, extra = {}) =>
  items.map((item) => (item.open ? { ...item, open: false, ...extra } : item));

export function stepFinished(live, event) {
  const open = live.items.at(-1)?.open;
  const items = open
    ? live.items
    : [...live.items, { at: event.at, open: true, message: { role: "assistant", content: "" } }];
  return { ...live, items: closedAnswer(items, { step: event.step }), doing: "thinking" };
}

export function toolStarted(live, event) {
  const items = closedAnswer(live.items);
  const call = { id: event.call_id, function: { name: event.name, arguments: event.arguments } };
  let place = items.length - 1;
  while (place >= 0 && ["tool", "note"].includes(items[place].message.role)) place -= 1;
  const answer = items[place]?.message.role === "assistant" ? items[place] : null;
  if (answer) {
    const calls = [...(answer.message.tool_calls ?? []), call];
    items[place] = { ...answer, message: { ...answer.message, tool_calls: calls } };
  } else {
    items.push({ at: event.at, message: { role: "assistant", content: "", tool_calls: [call] } });
  }
  const tools = { ...live.tools, [event.call_id]: { began: event.at, output: "", tasks: [] } };
  return { ...live, items, tools, doing: event.name };
}

export function toolFinished(live, event) {
  const message = { role: "tool", tool_call_id: event.call_id, content: event.output };
  if (!event.ok) message.holdfast = { failed: true };
  const tool = { ...live.tools[event.call_id], ended: event.at };
  const running = Object.entries(live.tools).some(([id, each]) => id !== event.call_id && !each.ended);
  return {
    ...live,
    items: [...live.items, { at: event.at, message }],
    tools: { ...live.tools, [event.call_id]: tool },
    doing: running ? live.doing : "thinking",
  };
}

/** The time in which a call waited for a person is not the tool's own. */
export function afterWaiting(live, ask, event) {
  const tool = live?.tools[ask?.call_id];
  if (!tool || !ask.at || !event.at) return live;
  const waited = (tool.waited ?? 0) + event.at - ask.at;
  return { ...live, tools: { ...live.tools, [ask.call_id]: { ...tool, waited } } };
}

export const ofTool = (change) => (live, event) => {
  const tool = live.tools[event.call_id] ?? { began: null, output: "", tasks: [] };
  return { ...live, tools: { ...live.tools, [event.call_id]: change(tool, event) } };
};

export function retrying(live, event) {
  const items = event.partial
    ? live.items.map((item) =>
        item.open
          ? {
              ...item,
              open: false,
              message: { ...item.message, holdfast: { ...item.message.holdfast, superseded: event.problem } },
            }
          : item,
      )
    : live.items.filter((item) => !item.open);
  return {
    ...live,
    items,
    retry: { problem: event.problem, delay: event.delay, attempt: event.attempt, at: event.at },
  };
}

export const longest = (...texts) =>
  texts.reduce((best, text) => (text && text.length > best.length ? text : best), "");

/** The text so far of the answer that is being written. */
export function unstored(live) {
  const last = live.items.at(-1);
  return last?.message.role === "assistant" && !last.step ? last.message.content : "";
}

export const note = (text, at) => ({ at, message: { role: "note", content: text } });
