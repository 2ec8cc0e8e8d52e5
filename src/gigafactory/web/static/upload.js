// A file is sent as it is, and what became of it is said beside the button.

export function upload() {
  const form = document.querySelector("[data-upload]");
  if (!form) return;
  const { csrf, file, name } = form.elements;
  const button = form.querySelector("button");
  const sign = form.querySelector("[role=status]");
  // Without this script nothing would be sent: only now it is shown.
  form.closest("section").hidden = false;

  const say = (words, fault = false) => {
    sign.textContent = words;
    sign.className = fault ? "fault" : "facts";
  };
  const send = async (chosen, called) => {
    if (chosen.size > Number(form.dataset.upload)) {
      say(`It is too large: the settings allow ${form.dataset.upload} bytes.`, true);
      return;
    }
    say(`Sending ${called} …`);
    const place = `${form.getAttribute("action")}?${new URLSearchParams({ name: called })}`;
    const answer = await fetch(place, { method: "POST", body: chosen, headers: { "x-csrf": csrf.value } });
    if (answer.status === 401) location.assign("/login?ended=yes");
    if (answer.ok) {
      form.reset();
      say(`${called} is added.`);
    } else say((await answer.json()).detail, true);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = file.files[0];
    button.disabled = true;
    try {
      await send(chosen, name.value.trim() || chosen.name);
    } catch {
      say("The coordinator cannot be reached; nothing was added.", true);
    } finally {
      button.disabled = false;
    }
  });
}
