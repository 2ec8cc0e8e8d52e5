// Live log: coloured lines with search and follow, limited in number.
import { Ansi } from "./ansi.js";

const LINES_MAX = 20000;

export function log(place) {
  const lines = place.querySelector("#log-lines");
  const search = place.querySelector("#log-search");
  const following = place.querySelector("#log-follow");
  const ansi = new Ansi();
  let rest = "";
  let open = null;

  const fits = (line) => !search.value || line.textContent.toLowerCase().includes(search.value.toLowerCase());
  const startLine = () => {
    open = document.createElement("div");
    lines.append(open);
    while (lines.children.length > LINES_MAX) lines.firstChild.remove();
  };
  const append = (text) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    for (const part of parts) {
      if (!open) startLine();
      open.replaceChildren(...ansi.nodes(part.replace(/\r$/, "").replace(/^.*\r/, "")));
      if (!open.textContent) open.append("\u00a0");
      open.hidden = !fits(open);
      open = null;
    }
    if (rest) {
      if (!open) startLine();
      open.replaceChildren(...ansi.peek(rest.replace(/^.*\r(?!$)/, "")));
      open.hidden = !fits(open);
    }
    if (following.checked) lines.scrollTop = lines.scrollHeight;
  };

  search.addEventListener("input", () => {
    for (const each of lines.children) each.hidden = !fits(each);
    if (following.checked) lines.scrollTop = lines.scrollHeight;
  });
  const atEnd = () => lines.scrollTop + lines.clientHeight > lines.scrollHeight - 8;
  // Scrolling up stops following; scrolling back to the end resumes it.
  lines.addEventListener("scroll", () => {
    if (!atEnd()) following.checked = false;
  });
  lines.addEventListener("scrollend", () => {
    if (atEnd()) following.checked = true;
  });
  following.addEventListener("change", () => {
    if (following.checked) lines.scrollTop = lines.scrollHeight;
  });

  const source = new EventSource(place.dataset.log);
  source.addEventListener("message", (message) => append(JSON.parse(message.data).text));
  source.addEventListener("end", () => source.close());
  source.addEventListener("none", () => {
    source.close();
    lines.textContent = "No log yet. It starts with the first run.";
    setTimeout(() => {
      lines.textContent = "";
      log(place);
    }, 2000);
  });
}
