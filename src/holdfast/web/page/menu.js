// Owns the small menu of one conversation: rename, pin, archive, compact, move, export, print, delete.
import { html, useEffect, useRef, useState } from "./lib/base.js";

export function Menu({ page, session, rename, top, left }) {
  const box = useRef(null);
  const [sure, setSure] = useState(false);
  const [forgetting, setForgetting] = useState(false);
  useEffect(() => box.current.querySelector("button").focus(), []);
  const run = (work) => async () => {
    page.closeMenu();
    await page.trying(work);
  };
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, Tab: event.shiftKey ? -1 : 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...box.current.querySelectorAll("button")];
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length].focus();
  };
  const ask = async () => {
    const title = prompt("New title", session.title || session.opening || "");
    if (title?.trim()) await page.list.patch(session, { title: title.trim() });
  };
  const own = page.session && page.session.state.rootId === session.root_id;
  const item = (label, work, extra = "") =>
    html`<button type="button" role="menuitem" class=${extra} onClick=${work}>${label}</button>`;
  const place = {
    top: `${Math.max(8, Math.min(top + 4, innerHeight - 440))}px`,
    left: `${Math.max(8, Math.min(left - 210, innerWidth - 230))}px`,
  };
  return html`<button type="button" class="under" tabindex="-1" aria-label="Close the menu" onClick=${page.closeMenu}></button>
    <div class="menu" role="menu" ref=${box} style=${place} onKeyDown=${onKeyDown} aria-label="Conversation">
      ${item(
        "Rename",
        rename
          ? () => {
              page.closeMenu();
              rename();
            }
          : run(ask),
      )}
      ${item(
        session.pinned ? "Unpin" : "Pin",
        run(() => page.list.patch(session, { pinned: !session.pinned })),
      )}
      ${item(
        session.archived ? "Unarchive" : "Archive",
        run(() => page.list.patch(session, { archived: !session.archived })),
      )}
      ${
        own &&
        page.session.state.state === "idle" &&
        item(
          "Compact now",
          run(() => page.session.command("compact")),
        )
      }
      ${item(
        "Export as Markdown",
        run(() => page.share("exportMarkdown", session)),
      )}
      ${item(
        "Share as an HTML file",
        run(() => page.share("shareHtml", session)),
      )}
      ${item(
        "Print",
        run(() => page.share("print", session)),
      )}
      ${item(
        "Export to import elsewhere",
        run(() => page.share("exportLines", session)),
      )}
      ${page.isOwner && item("Workspace and folder…", () => (page.closeMenu(), page.open("place", own ? {} : { listed: session })))}
      ${own && item("Tools…", () => (page.closeMenu(), page.open("tools")))}
      ${
        sure
          ? html`<button type="button" role="menuitemcheckbox" aria-checked=${forgetting} onClick=${() => setForgetting(!forgetting)}>${forgetting ? "☑" : "☐"} Memory forgets it too</button>
              ${item(
                "Delete for good",
                run(() => page.remove(session, forgetting)),
                "danger",
              )}`
          : item("Delete…", () => setSure(true), "danger")
      }
    </div>`;
}
