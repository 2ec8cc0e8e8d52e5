// The live part of a page: the server sends it anew when it has changed, and only what differs moves.
import { morph } from "./morph.js";

const LOST_AFTER_MS = 3000;

export function follow(part) {
  const sign = document.querySelector("#live");
  const icon = document.querySelector('link[rel="icon"]');
  let losing = 0;

  const show = (state, words) => {
    sign.dataset.state = state;
    if (sign.textContent !== words) sign.textContent = words;
    document.body.classList.toggle("lost", state === "lost");
  };
  const lose = () => {
    losing = 0;
    show("lost", "connection lost, trying again");
  };

  const source = new EventSource(part.dataset.live);
  source.addEventListener("open", () => {
    clearTimeout(losing);
    losing = 0;
    show("live", "live");
  });
  source.addEventListener("part", (message) => {
    const told = JSON.parse(message.data);
    morph(part, told.html);
    document.title = told.title;
    if (icon.getAttribute("href") !== told.icon) icon.href = told.icon;
    part.dispatchEvent(new CustomEvent("moved", { bubbles: true }));
  });
  source.addEventListener("signed_out", () => location.assign("/login"));
  source.addEventListener("error", () => {
    if (sign.dataset.state === "live") show("waiting", "reconnecting");
    if (!losing && sign.dataset.state !== "lost") losing = setTimeout(lose, LOST_AFTER_MS);
    if (source.readyState === EventSource.CLOSED) again(part, source);
  });
}

// A stream that the server refuses is not tried again by the browser: find out why, and begin anew.
async function again(part, source) {
  source.close();
  await new Promise((done) => setTimeout(done, 1000));
  try {
    const answer = await fetch("/live/whoami", { redirect: "manual" });
    if (answer.status === 401) {
      location.assign("/login");
      return;
    }
  } catch {
    // Still away: the next try says so again.
  }
  follow(part);
}
