// Update countdowns between two messages of the server.

export function tick() {
  setInterval(() => {
    for (const time of document.querySelectorAll("[data-until]")) {
      const left = Math.max(0, Math.round((Date.parse(time.dataset.until) - Date.now()) / 1000));
      time.textContent = left >= 3600 ? `${Math.floor(left / 3600)} h ${Math.floor((left % 3600) / 60)} min`
        : left >= 60 ? `${Math.floor(left / 60)} min ${left % 60} s` : `${left} s`;
    }
  }, 1000);
}
