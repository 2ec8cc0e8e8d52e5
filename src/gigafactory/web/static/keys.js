// Keyboard shortcuts: Ctrl+K opens the palette, j and k move, Enter opens, x selects, ? shows help.

const BOARD = ["Jobs as a board", "/jobs?view=board"];

// The navigation bar lists the pages that this user can see.
const pages = () => [...document.querySelectorAll(".bar nav a")].map((each) => [each.textContent, each.getAttribute("href")]);

export function listen() {
  const palette = document.querySelector("#palette");
  const input = palette.querySelector("input");
  const list = palette.querySelector("ul");

  const choices = () => {
    const text = input.value.trim().toLowerCase();
    const jobs = [...document.querySelectorAll("[data-open]")].map((each) => [
      each.querySelector("a")?.textContent ?? each.dataset.open,
      each.dataset.open,
    ]);
    // List each target once.
    const targets = new Map([...pages(), BOARD, ...jobs].map(([name, url]) => [url, name]));
    const found = [...targets]
      .map(([url, name]) => [name, url])
      .filter(([name]) => name.toLowerCase().includes(text))
      .slice(0, 12);
    if (text) found.push([`Find jobs: ${input.value}`, `/jobs?q=${encodeURIComponent(input.value.trim())}`]);
    list.replaceChildren(
      ...found.map(([name, url], number) => {
        const item = document.createElement("li");
        item.textContent = name;
        item.dataset.url = url;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", String(number === 0));
        item.addEventListener("click", () => location.assign(url));
        return item;
      }),
    );
  };
  const chosen = () => list.querySelector('[aria-selected="true"]');
  const move = (by) => {
    const all = [...list.children];
    const at = all.indexOf(chosen());
    all[at]?.setAttribute("aria-selected", "false");
    all.at((at + by + all.length) % all.length)?.setAttribute("aria-selected", "true");
  };

  input.addEventListener("input", choices);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (chosen()) location.assign(chosen().dataset.url);
    }
  });

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      input.value = "";
      choices();
      palette.showModal();
      return;
    }
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { j: () => step(1), k: () => step(-1), x: select, "?": help, "/": search, Enter: open }[event.key];
    if (act && act() !== false) event.preventDefault();
  });
}

const stops = () => [...document.querySelectorAll("[data-open]")].filter((each) => each.offsetParent);
const here = () => document.querySelector("[data-at]");

function step(by) {
  const all = stops();
  if (!all.length) return false;
  const at = all.indexOf(here());
  here()?.removeAttribute("data-at");
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  next.dataset.at = "";
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("a")?.focus();
}

function open() {
  const link = here();
  if (!link || document.activeElement.matches("a, button")) return false;
  location.assign(link.dataset.open);
}

function select() {
  const box = here()?.querySelector('input[type="checkbox"]');
  if (!box) return false;
  box.click();
}

function help() {
  document.querySelector("#keys").showModal();
}

function search() {
  const field = document.querySelector("[data-slash]");
  if (!field) return false;
  field.focus();
}
