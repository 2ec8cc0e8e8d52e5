// Apply new HTML to a part of the page: elements are matched by `data-key` and kept where they are equal.

export function morph(place, html) {
  const wanted = document.createElement("template");
  wanted.innerHTML = html;
  children(place, wanted.content);
}

function children(place, wanted) {
  const known = new Map();
  for (const child of place.children) if (child.dataset.key) known.set(child.dataset.key, child);
  let at = place.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = next.nodeType === Node.ELEMENT_NODE ? next.dataset.key : undefined;
    const same = key ? known.get(key) : at && !keyed(at) && alike(at, next) ? at : null;
    if (!same) {
      place.insertBefore(next, at);
      continue;
    }
    if (key) known.delete(key);
    if (same === at) at = at.nextSibling;
    else place.insertBefore(same, at);
    become(same, next);
  }
  while (at) {
    const after = at.nextSibling;
    at.remove();
    at = after;
  }
}

const keyed = (node) => node.nodeType === Node.ELEMENT_NODE && node.dataset.key;
const alike = (node, next) => node.nodeType === next.nodeType && node.nodeName === next.nodeName;

function become(node, next) {
  if (node.isEqualNode(next)) return;
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== next.nodeValue) node.nodeValue = next.nodeValue;
    return;
  }
  // Do not overwrite a field that the user is editing.
  if (node === document.activeElement && node.matches("input, textarea, select")) return;
  for (const { name, value } of [...next.attributes])
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  for (const { name } of [...node.attributes])
    if (!next.hasAttribute(name) && name !== "data-at" && name !== "open") node.removeAttribute(name);
  if (node.matches("textarea")) return;
  children(node, next);
}
