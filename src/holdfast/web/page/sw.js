// Owns what happens outside the page: a click on a notification opens the conversation that it is about. It keeps
// and changes no request.
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
