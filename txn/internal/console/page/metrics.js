// Prometheus text to numbers: counters, and rates and quantiles between two scrapes.

const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const escapes = { n: '\n', '"': '"', '\\': '\\' };

// parse returns a map from the name of a metric to its series, each { labels, value }.
export function parse(text) {
  const metrics = new Map();
  for (const line of text.split('\n')) {
    const m = sample.exec(line);
    if (!m) continue; // comments and the empty line at the end
    const labels = {};
    for (const [, name, value] of (m[2] ?? '').matchAll(label)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => escapes[c] ?? c);
    }
    const series = metrics.get(m[1]) ?? [];
    series.push({ labels, value: m[3] === '+Inf' ? Infinity : Number(m[3]) });
    metrics.set(m[1], series);
  }
  return metrics;
}

// total adds up the series of a metric whose labels pass the filter.
export function total(metrics, name, filter = () => true) {
  let sum = 0;
  for (const s of metrics.get(name) ?? []) if (filter(s.labels)) sum += s.value;
  return sum;
}

// kept is how long scrapes are kept, in milliseconds: rates are means over this time.
const kept = 15_000;

// History holds the scrapes of the last seconds.
export class History {
  #scrapes = [];

  // add takes a scrape of that time, in milliseconds. A counter that is lower than before belongs to
  // another process, whose scrapes say nothing about this one.
  add(time, metrics, process) {
    if (this.#scrapes.at(-1)?.process !== process) this.#scrapes = [];
    this.#scrapes.push({ time, metrics, process });
    while (this.#scrapes.length > 2 && this.#scrapes[1].time <= time - kept) this.#scrapes.shift();
  }

  // rate returns the growth of a counter per second, null before there are two scrapes.
  rate(name, filter) {
    const [first, last] = [this.#scrapes[0], this.#scrapes.at(-1)];
    if (!first || last.time <= first.time) return null;
    return Math.max(0, (total(last.metrics, name, filter) - total(first.metrics, name, filter)) / ((last.time - first.time) / 1000));
  }

  // quantile estimates a quantile of the observations between the first and the last scrape, by the
  // buckets of a histogram: the upper bound of the bucket that has it. It returns null if there were
  // none.
  quantile(name, q) {
    const [first, last] = [this.#scrapes[0], this.#scrapes.at(-1)];
    if (!first || first === last) return null;
    const counts = new Map();
    for (const s of last.metrics.get(name + '_bucket') ?? []) counts.set(s.labels.le, s.value);
    for (const s of first.metrics.get(name + '_bucket') ?? []) counts.set(s.labels.le, (counts.get(s.labels.le) ?? 0) - s.value);
    const bounds = [...counts].map(([le, n]) => [le === '+Inf' ? Infinity : Number(le), n]).sort((a, b) => a[0] - b[0]);
    const all = bounds.at(-1)?.[1] ?? 0;
    if (all <= 0) return null;
    return bounds.find(([, n]) => n >= q * all)[0];
  }
}
