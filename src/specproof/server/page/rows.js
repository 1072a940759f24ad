// Two rows of whole thousandths that always sum to one thousand, so that fractions sent to the server are exact.

export const WHOLE = 1000;
const NAMES = ["cat", "dog", "fish", "bird", "fox", "owl", "bee", "ant"];
export const FEWEST = 2, MOST = NAMES.length;

/** Whole numbers in the ratio of `weights` that sum to `total`: largest remainders get what is left. */
export function apportion(weights, total) {
  const sum = weights.reduce((a, b) => a + b, 0);
  if (sum === 0) return apportion(weights.map(() => 1), total);
  const exact = weights.map((weight) => (weight * total) / sum);
  const parts = exact.map(Math.floor);
  const order = exact.map((value, i) => [value - parts[i], i]).sort((a, b) => b[0] - a[0]);
  const left = total - parts.reduce((a, b) => a + b, 0);
  for (const [, i] of order.slice(0, left)) parts[i] += 1;
  return parts;
}

export class Rows {
  constructor() {
    this.names = NAMES.slice(0, 3);
    this.target = [600, 300, 100];
    this.draft = [400, 500, 100];
    this.held = null;
  }

  get size() { return this.names.length; }

  /** One bar takes this many thousandths; the others share the rest as they did before. */
  put(which, place, value) {
    // The others keep the ratio they had when this bar was first touched: up to 1 and back changes nothing.
    if (this.held?.which !== which || this.held.place !== place) this.held = { which, place, row: this[which] };
    const row = this.held.row;
    const own = Math.round(Math.min(WHOLE, Math.max(0, value)));
    const others = apportion(row.filter((_, i) => i !== place), WHOLE - own);
    others.splice(place, 0, own);
    this[which] = others;
  }

  resize(size) {
    this.held = null;
    while (this.size < size) {
      const share = Math.round(WHOLE / (this.size + 1) / 2);
      for (const which of ["target", "draft"]) this[which] = [...apportion(this[which], WHOLE - share), share];
      this.names.push(NAMES[this.size]);
    }
    if (this.size > size) {
      this.names = this.names.slice(0, size);
      for (const which of ["target", "draft"]) this[which] = apportion(this[which].slice(0, size), WHOLE);
    }
  }

  get body() {
    const exact = (row) => row.map((mass) => `${mass}/${WHOLE}`);
    return { target: exact(this.target), draft: exact(this.draft), names: this.names };
  }
}
