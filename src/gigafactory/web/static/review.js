// Comments on lines: collected here, and sent back to the agent as one word with a request for changes.

export function review() {
  const place = document.querySelector("[data-diff]");
  const form = document.querySelector("#review");
  if (!place || !form) return;

  place.addEventListener("click", (event) => {
    const button = event.target.closest(".say");
    if (!button) return;
    const row = button.closest("tr");
    const open = row.nextElementSibling;
    if (open?.classList.contains("comment")) {
      open.querySelector("textarea").focus();
      return;
    }
    row.after(box(row.closest("table").dataset.path, button.dataset.line, row));
    row.nextElementSibling.querySelector("textarea").focus();
    count();
  });
  place.addEventListener("input", count);
  form.addEventListener("submit", () => {
    const words = [form.elements.reason.value.trim(), ...comments()].filter(Boolean);
    form.elements.reason.value = words.join("\n\n");
  });

  function comments() {
    return [...place.querySelectorAll(".comment textarea")]
      .filter((each) => each.value.trim())
      .map((each) => `${each.dataset.path}:${each.dataset.line}\n> ${each.dataset.text}\n${each.value.trim()}`);
  }
  function count() {
    const many = comments().length;
    form.querySelector("#said").textContent = many === 1 ? "1 comment goes with it" : `${many} comments go with it`;
  }
}

function box(path, line, row) {
  const made = document.createElement("tr");
  made.className = "comment";
  const cell = made.insertCell();
  cell.colSpan = 3;
  const text = document.createElement("textarea");
  text.rows = 2;
  text.setAttribute("aria-label", `Comment on line ${line} of ${path}`);
  Object.assign(text.dataset, { path, line, text: row.querySelector("code").textContent.slice(2) });
  const away = document.createElement("button");
  away.type = "button";
  away.className = "quiet";
  away.textContent = "Remove";
  away.addEventListener("click", () => {
    made.remove();
    text.dispatchEvent(new Event("input", { bubbles: true }));
  });
  cell.append(text, away);
  return made;
}
