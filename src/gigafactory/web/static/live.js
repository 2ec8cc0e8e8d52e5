// The live part of a page: the server sends it anew when it has changed, and only what differs moves.
import { morph } from "./morph.js";

const LOST_AFTER_MS = 3000;
const AGAIN_AFTER_MS = 1000;
const SIGNED_OUT = "/login?ended=yes";

let losing = 0;

function show(state, words) {
  const sign = document.querySelector("#live");
  sign.dataset.state = state;
  if (sign.textContent !== words) sign.textContent = words;
  document.body.classList.toggle("lost", state === "lost" || state === "away");
}

// A moment without a stream is no news: what stays away is said.
function losingIt() {
  if (document.querySelector("#live").dataset.state === "live") show("waiting", "reconnecting");
  losing ||= setTimeout(() => show("lost", "connection lost, trying again"), LOST_AFTER_MS);
}

function found() {
  clearTimeout(losing);
  losing = 0;
}

export function follow(part) {
  const icon = document.querySelector('link[rel="icon"]');
  const source = new EventSource(part.dataset.live);
  source.addEventListener("part", (message) => {
    const told = JSON.parse(message.data);
    found();
    show("live", "live");
    morph(part, told.html);
    document.title = told.title;
    if (icon.getAttribute("href") !== told.icon) icon.href = told.icon;
    part.dispatchEvent(new CustomEvent("moved", { bubbles: true }));
  });
  source.addEventListener("away", (message) => {
    found();
    show("away", `outage: ${JSON.parse(message.data).reason}`);
  });
  source.addEventListener("signed_out", () => location.assign(SIGNED_OUT));
  source.addEventListener("error", () => {
    losingIt();
    if (source.readyState === EventSource.CLOSED) again(part, source);
  });
}

// A stream that the server refuses is not tried again by the browser: find out why, and begin anew.
async function again(part, source) {
  source.close();
  await new Promise((done) => setTimeout(done, AGAIN_AFTER_MS));
  try {
    const answer = await fetch("/live/whoami", { redirect: "manual" });
    if (answer.status === 401) {
      location.assign(SIGNED_OUT);
      return;
    }
    if (answer.status === 503) {
      found();
      show("away", `outage: ${(await answer.json()).detail}`);
    }
  } catch {
    // Still away: the next try says so again.
  }
  follow(part);
}
