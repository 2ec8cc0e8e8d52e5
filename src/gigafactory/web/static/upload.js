// Upload a file as the raw request body and show the result next to the button.

export function upload() {
  const form = document.querySelector("[data-upload]");
  if (!form) return;
  const { csrf, file, name } = form.elements;
  const button = form.querySelector("button");
  const sign = form.querySelector("[role=status]");
  // The form works only with this script, so it is hidden without it.
  form.closest("section").hidden = false;

  const say = (text, fault = false) => {
    sign.textContent = text;
    sign.className = fault ? "fault" : "facts";
  };
  const send = async (chosen, fileName) => {
    if (chosen.size > Number(form.dataset.upload)) {
      say(`The file is too large: the limit is ${form.dataset.upload} bytes.`, true);
      return;
    }
    say(`Uploading ${fileName} …`);
    const url = `${form.getAttribute("action")}?${new URLSearchParams({ name: fileName })}`;
    const answer = await fetch(url, { method: "POST", body: chosen, headers: { "x-csrf": csrf.value } });
    if (answer.status === 401) location.assign("/login?ended=yes");
    if (answer.ok) {
      form.reset();
      say(`${fileName} was added.`);
    } else say((await answer.json()).detail, true);
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = file.files[0];
    button.disabled = true;
    try {
      await send(chosen, name.value.trim() || chosen.name);
    } catch {
      say("The coordinator is unreachable; the file was not added.", true);
    } finally {
      button.disabled = false;
    }
  });
}
