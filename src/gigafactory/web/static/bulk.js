// Bulk actions: keep the selection across live updates and put it into the form.

export function bulk() {
  const form = document.querySelector("#bulk");
  const part = document.querySelector("#part");
  if (!form || !part) return;
  // By job, the commit that was shown when it was selected: that one is decided on.
  const selected = new Map();
  const show = () => {
    form.hidden = selected.size === 0;
    form.elements.jobs.value = [...selected].map(([id, commit]) => (commit ? `${id}@${commit}` : id)).join(",");
    form.querySelector("#chosen").textContent = `${selected.size} selected`;
  };
  part.addEventListener("change", (event) => {
    const box = event.target;
    if (!box.matches('input[type="checkbox"]')) return;
    if (box.checked) selected.set(box.value, box.dataset.commit);
    else selected.delete(box.value);
    show();
  });
  part.addEventListener("moved", () => {
    const boxes = new Map([...part.querySelectorAll('input[type="checkbox"]')].map((box) => [box.value, box]));
    for (const id of [...selected.keys()]) if (!boxes.has(id)) selected.delete(id);
    for (const [id, box] of boxes) box.checked = selected.has(id);
    show();
  });
}
