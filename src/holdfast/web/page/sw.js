// Owns what happens outside the page: a click on a notification opens the conversation that it is about, and a page
// that is opened while the server can't be reached says so. It keeps nothing, and changes no other request.
const AGAIN_S = 5;
const UNREACHABLE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta http-equiv="refresh" content="${AGAIN_S}" />
    <title>No connection · Holdfast</title>
    <style>
      :root { color-scheme: light dark; }
      body { font: 16px/1.6 system-ui, sans-serif; background: light-dark(#fbfaf8, #16181c); color: light-dark(#22242a, #e6e5e1); max-width: 32rem; margin: 0 auto; padding: 20vh 24px 0; }
      h1 { font-size: 1.5rem; font-weight: 620; line-height: 1.3; }
      p { color: light-dark(#5d5f68, #a3a6ae); }
    </style>
  </head>
  <body>
    <main>
      <h1>The server can't be reached</h1>
      <p>Your conversations and what you have written are kept. Nothing of them can be shown without the server.</p>
      <p>If it runs on this machine, start it with “holdfast web”. If it runs elsewhere, look at this device's connection. This page tries again every ${AGAIN_S} seconds.</p>
    </main>
  </body>
</html>`;

addEventListener("fetch", (event) => {
  if (event.request.mode !== "navigate") return;
  const headers = { "content-type": "text/html; charset=utf-8", "cache-control": "no-store" };
  event.respondWith(fetch(event.request).catch(() => new Response(UNREACHABLE, { status: 503, headers })));
});

addEventListener("notificationclick", (event) => {
  event.notification.close();
  const address = new URL(event.notification.data.address, location.href).href;
  event.waitUntil(
    clients.matchAll({ type: "window", includeUncontrolled: true }).then(async (open) => {
      const [page] = open;
      if (!page) return clients.openWindow(address);
      await page.focus();
      return page.navigate(address).catch(() => clients.openWindow(address));
    }),
  );
});
