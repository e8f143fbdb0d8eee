// Rates and quantiles between the reports of instances.

// kept is how long reports are kept, in milliseconds: rates are means over this time.
const kept = 15_000;

// Rates holds the reports of the last seconds of each instance.
export class Rates {
  #histories = new Map(); // name of an instance to its reports, each { time, report }
  #answering = [];

  // add takes the answer of the page's instance. Only instances that answer count from then on.
  add(instances) {
    this.#answering = [];
    const names = new Set(instances.map((i) => i.instance));
    for (const name of this.#histories.keys()) if (!names.has(name)) this.#histories.delete(name);
    for (const i of instances) {
      if (!answers(i)) continue;
      this.#answering.push(i.instance);
      let reports = this.#histories.get(i.instance) ?? [];
      // Counters of another process say nothing about this one.
      if (reports.at(-1)?.report.started !== i.report.started) reports = [];
      if (reports.length === 0 || reports.at(-1).time < i.taken_ms) reports.push({ time: i.taken_ms, report: i.report });
      while (reports.length > 2 && reports[1].time <= i.taken_ms - kept) reports.shift();
      this.#histories.set(i.instance, reports);
    }
  }

  // spans returns the first and the last report of each instance that has two.
  #spans(instance) {
    const names = instance === undefined ? this.#answering : this.#answering.filter((n) => n === instance);
    return names.map((n) => this.#histories.get(n)).filter((reports) => reports.length > 1).map((reports) => [reports[0], reports.at(-1)]);
  }

  // rate returns the growth per second of count(report), of an instance or of all together. It is
  // null before an instance has two reports.
  rate(count, instance) {
    const spans = this.#spans(instance);
    if (spans.length === 0) return null;
    return spans.reduce((sum, [first, last]) =>
      sum + Math.max(0, (count(last.report) - count(first.report)) / ((last.time - first.time) / 1000)), 0);
  }

  // commitTime estimates a quantile of the times of commits between the first and the last report,
  // by the buckets of a histogram: the upper bound of the bucket that has it. It is null if there
  // were none.
  commitTime(q, instance) {
    const buckets = new Map();
    let all = 0;
    for (const [first, last] of this.#spans(instance)) {
      all += last.report.counts.commits - first.report.counts.commits;
      for (const b of last.report.counts.commit_seconds ?? []) buckets.set(b.bound, (buckets.get(b.bound) ?? 0) + b.count);
      for (const b of first.report.counts.commit_seconds ?? []) buckets.set(b.bound, (buckets.get(b.bound) ?? 0) - b.count);
    }
    if (all <= 0) return null;
    const found = [...buckets].sort((a, b) => a[0] - b[0]).find(([, n]) => n >= q * all);
    return found ? found[0] : Infinity;
  }
}

// answers says whether what an instance reports is of now.
export const answers = (i) => (i.state === 'here' || i.state === 'answering') && Boolean(i.report);
