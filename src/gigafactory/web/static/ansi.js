// Convert ANSI colours to spans. Other escape sequences are dropped; all output is text nodes, never HTML.

const SEQUENCE = /\x1b(?:\[([0-9;]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const PLAIN = { bold: false, dim: false, under: false, colour: null };

export class Ansi {
  #state = { ...PLAIN };

  // Return a line as nodes; its colours carry over to the next line.
  nodes(text) {
    const nodes = [];
    let at = 0;
    for (const found of text.matchAll(SEQUENCE)) {
      this.#append(nodes, text.slice(at, found.index));
      if (found[2] === "m") this.#change(found[1]);
      at = found.index + found[0].length;
    }
    this.#append(nodes, text.slice(at));
    return nodes;
  }

  // Return an incomplete line as nodes, without carrying over its colours.
  peek(text) {
    const saved = { ...this.#state };
    const nodes = this.nodes(text);
    this.#state = saved;
    return nodes;
  }

  #append(nodes, text) {
    const printable = text.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
    if (!printable) return;
    const { bold, dim, under, colour } = this.#state;
    const names = [bold && "a1", dim && "a2", under && "a4", colour !== null && `f${colour}`].filter(Boolean);
    if (!names.length) {
      nodes.push(document.createTextNode(printable));
      return;
    }
    const span = document.createElement("span");
    span.className = names.join(" ");
    span.textContent = printable;
    nodes.push(span);
  }

  #change(codes) {
    const numbers = codes === "" ? [0] : codes.split(";").map(Number);
    for (let at = 0; at < numbers.length; at += 1) {
      const code = numbers[at];
      if (code === 0) this.#state = { ...PLAIN };
      else if (code === 1) this.#state.bold = true;
      else if (code === 2) this.#state.dim = true;
      else if (code === 4) this.#state.under = true;
      else if (code === 22) this.#state.bold = this.#state.dim = false;
      else if (code === 24) this.#state.under = false;
      else if (code >= 30 && code <= 37) this.#state.colour = code - 30;
      else if (code >= 90 && code <= 97) this.#state.colour = code - 90;
      else if (code === 39) this.#state.colour = null;
      else if (code === 38 || code === 48) at += numbers[at + 1] === 2 ? 4 : 2;
    }
  }
}
