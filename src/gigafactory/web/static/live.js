// Live updates: the server sends the part when it changes; only the differences are applied to the page.
import { morph } from "./morph.js";

const LOST_AFTER_MS = 3000;
const RETRY_AFTER_MS = 1000;
const SIGNED_OUT = "/login?ended=yes";

let lossTimer = 0;

function show(state, text) {
  const sign = document.querySelector("#live");
  sign.dataset.state = state;
  if (sign.textContent !== text) sign.textContent = text;
  document.body.classList.toggle("lost", state === "lost" || state === "away");
}

// Report a lost connection only after a delay: short interruptions are normal.
function reportLossLater() {
  if (document.querySelector("#live").dataset.state === "live") show("waiting", "reconnecting");
  lossTimer ||= setTimeout(() => show("lost", "connection lost, retrying"), LOST_AFTER_MS);
}

function clearLoss() {
  clearTimeout(lossTimer);
  lossTimer = 0;
}

export function follow(part) {
  const icon = document.querySelector('link[rel="icon"]');
  const source = new EventSource(part.dataset.live);
  source.addEventListener("part", (message) => {
    const update = JSON.parse(message.data);
    clearLoss();
    show("live", "live");
    morph(part, update.html);
    document.title = update.title;
    if (icon.getAttribute("href") !== update.icon) icon.href = update.icon;
    part.dispatchEvent(new CustomEvent("moved", { bubbles: true }));
  });
  source.addEventListener("away", (message) => {
    clearLoss();
    show("away", `outage: ${JSON.parse(message.data).reason}`);
  });
  source.addEventListener("signed_out", () => location.assign(SIGNED_OUT));
  source.addEventListener("error", () => {
    reportLossLater();
    if (source.readyState === EventSource.CLOSED) reconnect(part, source);
  });
}

// Browsers do not retry a refused stream: find out the reason, then reconnect.
async function reconnect(part, source) {
  source.close();
  await new Promise((done) => setTimeout(done, RETRY_AFTER_MS));
  try {
    const answer = await fetch("/live/whoami", { redirect: "manual" });
    if (answer.status === 401) {
      location.assign(SIGNED_OUT);
      return;
    }
    if (answer.status === 503) {
      clearLoss();
      show("away", `outage: ${(await answer.json()).detail}`);
    }
  } catch {
    // Still unreachable: the next attempt reports it.
  }
  follow(part);
}
