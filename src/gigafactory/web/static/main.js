// Entry point of all pages.
import { follow } from "./live.js";
import { listen } from "./keys.js";
import { log } from "./log.js";
import { bulk } from "./bulk.js";
import { review } from "./review.js";
import { upload } from "./upload.js";
import { write } from "./write.js";
import { tick } from "./times.js";

const part = document.querySelector("#part[data-live]");
if (part) follow(part);
for (const place of document.querySelectorAll("[data-log]")) log(place);
if (document.querySelector("#palette")) listen();
// Scroll the current page into view where the navigation bar does not fit.
const open = document.querySelector(".bar nav [aria-current]");
if (open) open.scrollIntoView({ block: "nearest", inline: "center" });
// Submit on change and hide the button.
for (const choice of document.querySelectorAll("[data-submits]")) {
  choice.form.querySelector("button").hidden = true;
  choice.addEventListener("change", () => choice.form.requestSubmit());
}
bulk();
review();
upload();
write();
tick();
