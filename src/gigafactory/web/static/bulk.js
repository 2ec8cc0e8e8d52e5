// Rows that are selected stay so while the list moves; what is done to them is one form.

export function bulk() {
  const form = document.querySelector("#bulk");
  const part = document.querySelector("#part");
  if (!form || !part) return;
  const chosen = new Set();
  const show = () => {
    form.hidden = chosen.size === 0;
    form.elements.jobs.value = [...chosen].join(",");
    form.querySelector("#chosen").textContent = `${chosen.size} chosen`;
  };
  part.addEventListener("change", (event) => {
    const box = event.target;
    if (!box.matches('input[type="checkbox"]')) return;
    if (box.checked) chosen.add(box.value);
    else chosen.delete(box.value);
    show();
  });
  part.addEventListener("moved", () => {
    const there = new Map([...part.querySelectorAll('input[type="checkbox"]')].map((box) => [box.value, box]));
    for (const id of chosen) if (!there.has(id)) chosen.delete(id);
    for (const [id, box] of there) box.checked = chosen.has(id);
    show();
  });
}
