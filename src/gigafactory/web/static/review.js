// Review comments on lines: collected on the page and sent together as the reason of the decision.

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
    const texts = [form.elements.reason.value.trim(), ...comments()].filter(Boolean);
    form.elements.reason.value = texts.join("\n\n");
  });

  function comments() {
    return [...place.querySelectorAll(".comment textarea")]
      .filter((each) => each.value.trim())
      .map((each) => `${each.dataset.path}:${each.dataset.line}\n> ${each.dataset.text}\n${each.value.trim()}`);
  }
  function count() {
    const many = comments().length;
    form.querySelector("#said").textContent = many === 1 ? "1 comment" : `${many} comments`;
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
  const remove = document.createElement("button");
  remove.type = "button";
  remove.className = "quiet";
  remove.textContent = "Remove";
  remove.addEventListener("click", () => {
    made.remove();
    text.dispatchEvent(new Event("input", { bubbles: true }));
  });
  cell.append(text, remove);
  return made;
}
