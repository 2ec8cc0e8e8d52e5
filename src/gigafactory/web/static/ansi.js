// Colours of terminals as spans; whatever else a program sends to a terminal is left out. All text stays text.

const SEQUENCE = /\x1b(?:\[([0-9;]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const PLAIN = { bold: false, dim: false, under: false, colour: null };

export class Ansi {
  #state = { ...PLAIN };

  // The line as nodes; its colours go on in the next one.
  nodes(text) {
    const made = [];
    let at = 0;
    for (const found of text.matchAll(SEQUENCE)) {
      this.#put(made, text.slice(at, found.index));
      if (found[2] === "m") this.#change(found[1]);
      at = found.index + found[0].length;
    }
    this.#put(made, text.slice(at));
    return made;
  }

  // A line that is not whole yet: nothing of it lasts.
  peek(text) {
    const kept = { ...this.#state };
    const made = this.nodes(text);
    this.#state = kept;
    return made;
  }

  #put(made, text) {
    const shown = text.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
    if (!shown) return;
    const { bold, dim, under, colour } = this.#state;
    const names = [bold && "a1", dim && "a2", under && "a4", colour !== null && `f${colour}`].filter(Boolean);
    if (!names.length) {
      made.push(document.createTextNode(shown));
      return;
    }
    const span = document.createElement("span");
    span.className = names.join(" ");
    span.textContent = shown;
    made.push(span);
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
