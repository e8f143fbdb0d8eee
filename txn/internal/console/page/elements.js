// Elements of the page, and numbers and times as it shows them.

// make returns an element. Children are elements and texts, never markup.
export function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return e;
}

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const small = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
export const count = (n) => (n === null || n === undefined ? '–' : number.format(n));
export const rate = (n) => (n === null ? '–' : `${n < 10 ? small.format(n) : number.format(n)}/s`);
export const time = (t) => (t ? new Date(t).toISOString().replace('T', ' ').replace(/\.\d+Z$/, 'Z') : '–');
export const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds === Infinity) return 'more than the largest bucket';
  if (seconds < 1) return `${small.format(seconds * 1000)} ms`;
  if (seconds < 120) return `${small.format(seconds)} s`;
  if (seconds < 7200) return `${small.format(seconds / 60)} min`;
  return `${small.format(seconds / 3600)} h`;
}

// table returns a table, or the sentence for an empty one. The first cell of a row is its head.
export function table(label, heads, rows, empty) {
  if (rows.length === 0) return make('p', { class: 'empty' }, empty);
  const cell = (c, i) => (i === 0 ? make('th', { scope: 'row' }, c) : make('td', {}, c));
  // The keyboard scrolls what is wider than the page.
  return make('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': label }, make('table', {},
    make('thead', {}, make('tr', {}, heads.map((h) => make('th', { scope: 'col' }, h)))),
    make('tbody', {}, rows.map((r) => make('tr', {}, r.map(cell))))));
}

export const pill = (state) => make('span', { class: 'state ' + state }, state);
export const lines = (texts) => texts.map((t) => make('div', {}, t));

export function progress(done, left) {
  const text = `${count(done)} read, ${count(left)} offsets left`;
  return make('progress', { max: String(done + left || 1), value: String(done), title: text, 'aria-label': text });
}

// wides returns the parts of an element that scroll sideways.
const wides = (within) => [...within.querySelectorAll('.wide')];

// show puts content into a section. What was scrolled, and has the focus, stays so.
export function show(id, ...content) {
  const into = document.querySelector(`#${id} > div`);
  const before = wides(into);
  const scrolled = before.map((w) => w.scrollLeft);
  const focused = before.indexOf(document.activeElement);
  into.replaceChildren(...content.flat());
  wides(into).forEach((w, i) => { w.scrollLeft = scrolled[i] ?? 0; });
  if (focused >= 0) wides(into)[focused]?.focus({ preventScroll: true });
}
