// The picture of a subtopology: topics and processors in columns from left to right, each store
// below the first processor that uses it.

const box = { width: 176, height: 46, gapX: 64, gapY: 22 };
const svgNS = 'http://www.w3.org/2000/svg';

// place returns the boxes of a subtopology with their column and row, and the lines between them.
export function place(sub) {
  const boxes = new Map();
  const lines = [];
  for (const n of sub.nodes) {
    const id = 'n ' + n.name;
    boxes.set(id, {
      id, kind: n.kind === 'processor' ? 'processor' : 'topic', role: n.kind, name: n.kind === 'processor' ? n.name : n.topic || n.pattern,
      node: n.name, topic: n.topic, about: [n.windows, n.suppression, n.grace].filter(Boolean).join('; '), column: 0,
    });
  }
  for (const n of sub.nodes) {
    for (const e of n.next ?? []) lines.push({ from: 'n ' + n.name, to: 'n ' + e.to, label: e.outlet ?? '' });
  }
  // The column is the longest way from a source. The graph has no cycle, so as many passes as there
  // are boxes are enough.
  for (let pass = 0, moved = true; moved && pass <= boxes.size; pass++) {
    moved = false;
    for (const { from, to } of lines) {
      const column = boxes.get(from).column + 1;
      if (boxes.get(to).column < column) {
        boxes.get(to).column = column;
        moved = true;
      }
    }
  }
  const columns = [];
  for (const b of boxes.values()) (columns[b.column] ??= []).push(b);
  // In each column boxes lie in the order of the middle of those that lead to them.
  columns.forEach((column, i) => {
    column.forEach((b, row) => {
      const before = lines.filter((l) => l.to === b.id).map((l) => boxes.get(l.from).row).filter((r) => r !== undefined);
      b.order = i > 0 && before.length ? before.reduce((x, y) => x + y, 0) / before.length : row;
    });
    column.sort((a, b) => a.order - b.order);
    let row = 0;
    for (const b of column) {
      b.row = row++;
      const n = sub.nodes.find((n) => 'n ' + n.name === b.id);
      for (const store of [...(n.stores ?? []), ...(n.global_tables ?? [])]) {
        const id = 'd ' + store;
        if (!boxes.has(id)) boxes.set(id, { id, kind: 'store', role: 'store', name: store, about: '', column: i, row: row++ });
        lines.push({ from: b.id, to: id, label: '', store: true });
      }
    }
  });
  return { boxes: [...boxes.values()], lines };
}

function element(name, attributes, ...children) {
  const e = document.createElementNS(svgNS, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

const left = (b) => b.column * (box.width + box.gapX) + 1;
const top = (b) => b.row * (box.height + box.gapY) + 1;

// short cuts a name to what a box holds; the full one is in the title.
function short(name, max = 24) {
  return name.length <= max ? name : name.slice(0, max / 2 - 1) + '…' + name.slice(-(max / 2));
}

// draw returns the picture as an SVG element. figure(box) is the text below a name, '' for none;
// local(name) is the name of a topic as it is shown.
export function draw(sub, figure, local) {
  const { boxes, lines } = place(sub);
  const at = new Map(boxes.map((b) => [b.id, b]));
  const width = Math.max(...boxes.map(left)) + box.width + 2;
  const height = Math.max(...boxes.map(top)) + box.height + 2;
  const svg = element('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `Topology of ${sub.name}` });
  for (const l of lines) {
    const [from, to] = [at.get(l.from), at.get(l.to)];
    let path;
    if (from.column === to.column) { // a store below its node, or next to the node that shares it
      const x = left(from) + box.width / 2;
      path = `M ${x} ${top(from) + box.height} L ${x} ${top(to)}`;
      if (top(to) < top(from)) path = `M ${x} ${top(from)} L ${x} ${top(to) + box.height}`;
    } else {
      const forward = from.column < to.column;
      const [x1, y1] = [left(from) + (forward ? box.width : 0), top(from) + box.height / 2];
      const [x2, y2] = [left(to) + (forward ? 0 : box.width), top(to) + box.height / 2];
      const bend = (x1 + x2) / 2;
      path = `M ${x1} ${y1} C ${bend} ${y1}, ${bend} ${y2}, ${x2} ${y2}`;
    }
    svg.append(element('path', { d: path, class: l.store ? 'line store' : 'line' }));
    if (l.label) {
      const x = (left(from) + box.width + left(to)) / 2;
      const y = (top(from) + top(to)) / 2 + box.height / 2 - 4;
      svg.append(element('text', { x, y, class: 'outlet' }, short(l.label, 12)));
    }
  }
  for (const b of boxes) {
    const g = element('g', { class: 'box ' + b.kind, transform: `translate(${left(b)} ${top(b)})` });
    g.append(element('title', {}, b.about ? `${b.name}: ${b.about}` : b.name));
    g.append(element('rect', { width: box.width, height: box.height, rx: { topic: 22, processor: 4, store: 10 }[b.kind] }));
    const text = figure(b);
    g.append(element('text', { x: box.width / 2, y: text ? 19 : 28 }, short(b.kind === 'topic' ? local(b.name) : b.name)));
    if (text) g.append(element('text', { x: box.width / 2, y: 36, class: 'figure' }, text));
    svg.append(g);
  }
  return svg;
}
