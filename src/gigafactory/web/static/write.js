// Validate the text shortly after each change; drop outdated results.

const PAUSE_MS = 250;

export function write() {
  const form = document.querySelector("[data-check]");
  if (!form) return;
  const verdict = form.querySelector("#verdict");
  let waiting = 0;
  let asked = 0;

  const check = async () => {
    const mine = (asked += 1);
    try {
      const answer = await fetch(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      if (answer.status === 401) location.assign("/login?ended=yes");
      const html = await answer.text();
      if (mine === asked && answer.ok) verdict.innerHTML = html;
    } catch {
      if (mine === asked) verdict.textContent = "The coordinator is unreachable; your text is still here.";
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(check, PAUSE_MS);
  });
  check();
}
