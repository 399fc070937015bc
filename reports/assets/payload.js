// Reads the page's data: one JSON block, and integer columns packed by reports/columns.py.
"use strict";

const dlrmsim = {};

dlrmsim.payload = (() => {
  /** The JSON block of the page with this id, parsed; null when the page has none. */
  function read(id) {
    const block = document.getElementById(id);
    return block ? JSON.parse(block.textContent) : null;
  }

  async function inflate(text) {
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** Undo `encode_integers`: base64 of zlib of LEB128 of zigzag of differences -> Float64Array (exact to 2^53). */
  async function integers(text) {
    const bytes = await inflate(text);
    let count = 0;
    for (const byte of bytes) if (byte < 128) count += 1;
    const values = new Float64Array(count);
    let previous = 0;
    let at = 0;
    for (let i = 0; i < count; i += 1) {
      let coded = 0;
      let weight = 1;
      for (; bytes[at] >= 128; at += 1, weight *= 128) coded += (bytes[at] - 128) * weight;
      coded += bytes[at] * weight;
      at += 1;
      previous += coded % 2 === 0 ? coded / 2 : -(coded + 1) / 2;
      values[i] = previous;
    }
    return values;
  }

  /** Decode every column of an object of packed columns. */
  async function columns(packed) {
    const names = Object.keys(packed);
    const decoded = await Promise.all(names.map((name) => integers(packed[name])));
    return Object.fromEntries(names.map((name, i) => [name, decoded[i]]));
  }

  return { read, integers, columns };
})();
