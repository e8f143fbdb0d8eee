// Asks the instance every two seconds what it does, and shows the answer.
import { History, parse, total } from './metrics.js';
import { draw } from './drawing.js';

const interval = 2000; // between two answers, in milliseconds
const patience = 10_000; // for one answer

const history = new History();
let last = null; // the time of the last answer

// make returns an element. Children are elements and texts, never markup.
function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return e;
}

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const small = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const count = (n) => (n === null || n === undefined ? '–' : number.format(n));
const rate = (n) => (n === null ? '–' : `${n < 10 ? small.format(n) : number.format(n)}/s`);
const time = (t) => (t ? new Date(t).toISOString().replace('T', ' ').replace(/\.\d+Z$/, 'Z') : '–');

function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds === Infinity) return 'more than the largest bucket';
  if (seconds < 1) return `${small.format(seconds * 1000)} ms`;
  if (seconds < 120) return `${small.format(seconds)} s`;
  if (seconds < 7200) return `${small.format(seconds / 60)} min`;
  return `${small.format(seconds / 3600)} h`;
}

// table returns a table, or the sentence for an empty one.
function table(heads, rows, empty) {
  if (rows.length === 0) return make('p', { class: 'empty' }, empty);
  return make('div', { class: 'wide' }, make('table', {},
    make('thead', {}, make('tr', {}, heads.map((h) => make('th', { scope: 'col' }, h)))),
    make('tbody', {}, rows.map((r) => make('tr', {}, r.map((c) => make('td', {}, c)))))));
}

const pill = (state) => make('span', { class: 'state ' + state }, state);
const lines = (texts) => texts.map((t) => make('div', {}, t));

// taskName returns the name of a task as logs and metrics have it.
const taskName = (id) => `${id.Subtopology}_${id.Partition}`;

// subtopologyOf returns the part of a task's name before the last underscore.
const subtopologyOf = (task) => task.slice(0, task.lastIndexOf('_'));

// show puts content into a section.
function show(id, ...content) {
  document.querySelector(`#${id} > div`).replaceChildren(...content.flat());
}

function problems({ status, not_ready: notReady }) {
  const texts = [...new Set([...notReady, ...(status.alerts ?? []).map((a) => a.text)])];
  for (const t of status.tasks ?? []) {
    if (t.retry) texts.push(`task ${taskName(t.id)} tries ${t.retry.record} again since ${time(t.retry.since)}, ${t.retry.attempts} times so far: ${t.retry.failure}`);
    for (const w of t.waits ?? []) {
      if (w.held_by) texts.push(`task ${taskName(t.id)} waits since ${time(w.since)} for a transaction on ${w.topic}[${w.partition}]: ${w.held_by}`);
    }
  }
  for (const s of status.standbys ?? []) if (s.state === 'failing') texts.push(`the copy of task ${taskName(s.id)} does not follow: ${s.reason}`);
  if (status.not_looked_at) texts.push(`transactions may hang in what was not looked at: ${status.not_looked_at}`);
  show('problems', texts.length === 0 ? make('p', { class: 'good' }, 'None.') : make('ul', {}, texts.map((t) => make('li', {}, t))));
}

function figures({ status }, metrics) {
  const lags = (status.tasks ?? []).flatMap((t) => t.inputs ?? []).map((i) => i.lag).filter((l) => l !== undefined && l !== null);
  const totals = status.totals ?? {};
  const cards = [
    ['records', rate(history.rate('onceward_records_committed_total')), `${count(totals.records)} in all`],
    ['outputs', rate(history.rate('onceward_outputs_committed_total')), `${count(totals.outputs)} in all`],
    ['lag', count(lags.length ? lags.reduce((a, b) => a + b, 0) : null), 'offsets of all inputs'],
    ['commit, p50', duration(history.quantile('onceward_commit_seconds', 0.5)), 'at most'],
    ['commit, p99', duration(history.quantile('onceward_commit_seconds', 0.99)), 'at most'],
    ['commits', rate(history.rate('onceward_rounds_committed_total')), `${count(totals.commits)} in all`],
    ['aborted rounds', count(total(metrics, 'onceward_rounds_aborted_total')), 'in all'],
    ['dead letters', count(totals.dead_letters), 'in all'],
  ];
  show('figures', make('dl', { class: 'cards' }, cards.map(([name, value, note]) =>
    make('div', {}, make('dt', {}, name), make('dd', {}, value), make('dd', { class: 'note' }, note)))));
}

// inOrder returns the subtopologies so that each comes after those that write its repartition topics.
function inOrder(subtopologies) {
  const depth = new Map(subtopologies.map((s) => [s.name, 0]));
  for (let pass = 0; pass < subtopologies.length; pass++) { // a loop of subtopologies ends by this bound
    for (const s of subtopologies) {
      for (const before of subtopologies) {
        const feeds = s !== before && s.sources.some((source) => source.repartition && before.sinks.includes(source.topic));
        if (feeds) depth.set(s.name, Math.max(depth.get(s.name), Math.min(depth.get(before.name) + 1, subtopologies.length)));
      }
    }
  }
  return [...subtopologies].sort((a, b) => depth.get(a.name) - depth.get(b.name));
}

function topology({ topology, status }) {
  const tasks = status.tasks ?? [];
  const prefix = topology.application + '-';
  const local = (name) => (topology.internal_topics.includes(name) && name.startsWith(prefix) ? name.slice(prefix.length) : name);
  show('topology', inOrder(topology.subtopologies).map((sub) => {
    const here = tasks.filter((t) => t.id.Subtopology === sub.name);
    const ours = (labels) => subtopologyOf(labels.task ?? '') === sub.name;
    // A source by pattern reads all topics of the subtopology that no other source names.
    const named = new Set(sub.sources.map((source) => source.topic).filter(Boolean));
    const reads = (b, topic) => (b.topic ? topic === b.topic : !named.has(topic));
    const figure = (b) => {
      if (b.role === 'source') {
        const inputs = here.flatMap((t) => t.inputs ?? []).filter((i) => reads(b, i.topic));
        const lag = inputs.reduce((sum, i) => sum + (i.lag ?? 0), 0);
        const known = inputs.some((i) => i.lag !== undefined && i.lag !== null);
        const r = history.rate('onceward_records_committed_total', (l) => ours(l) && reads(b, l.topic));
        return [r === null ? '' : rate(r), known ? `lag ${count(lag)}` : ''].filter(Boolean).join(', ');
      }
      if (b.role === 'processor') {
        const r = history.rate('onceward_node_outcomes_total', (l) => ours(l) && l.node === b.node);
        return r ? `${rate(r)} outcomes` : '';
      }
      return '';
    };
    return make('figure', {}, make('figcaption', {}, `${sub.name}: ${count(here.length)} ${here.length === 1 ? 'task' : 'tasks'} here`),
      make('div', { class: 'wide' }, draw(sub, figure, local)));
  }));
}

function progress(done, left) {
  const bar = make('progress', { max: String(done + left || 1), value: String(done) });
  bar.title = `${count(done)} read, ${count(left)} offsets left`;
  return bar;
}

function tasks({ status }) {
  const rows = (status.tasks ?? []).map((t) => {
    const work = [];
    if (t.state === 'restoring') {
      work.push(progress(t.restored ?? 0, t.remaining ?? 0), make('div', {}, `${count(t.restored ?? 0)} read, ${count(t.remaining ?? 0)} offsets left`
        + (t.restore_left_ns ? `, about ${duration(t.restore_left_ns / 1e9)}` : '')));
    }
    if (t.reason) work.push(make('div', {}, t.reason));
    for (const p of t.parked ?? []) work.push(make('div', {}, `${count(p.records)} records of ${count(p.keys)} keys parked in ${p.topic}`));
    const inputs = t.inputs ?? [];
    return [taskName(t.id), pill(t.state), lines(inputs.map((i) => `${i.topic}[${i.partition}]`)), lines(inputs.map((i) => count(i.offset))),
      lines(inputs.map((i) => count(i.lag))), rate(history.rate('onceward_records_committed_total', (l) => l.task === taskName(t.id))), count(t.records),
      count(t.dead_letters), lines(inputs.map((i) => time(i.stream_time))), work];
  });
  show('tasks', table(['task', 'state', 'input', 'committed', 'lag', 'rate', 'records', 'dead letters', 'stream time', ''], rows,
    'This instance has no task now. Tasks are where the group assigned them.'));
}

function globals({ status }) {
  const rows = (status.global_tables ?? []).map((g) => [g.store, g.topic, pill(g.state), count(g.records), count(g.skipped ?? 0), count(g.remaining ?? 0), count(g.lag ?? 0), g.cause ?? '']);
  document.getElementById('globals').hidden = rows.length === 0;
  show('globals', table(['store', 'topic', 'state', 'records', 'skipped', 'offsets left', 'lag', 'read from the start because'], rows, ''));
}

function standbys({ status }) {
  const rows = (status.standbys ?? []).map((s) => [taskName(s.id), pill(s.state), lines((s.inputs ?? []).map((i) => `${i.topic}[${i.partition}]`)),
    lines((s.inputs ?? []).map((i) => count(i.offset))), count(s.restored), count(s.remaining ?? 0), s.reason ?? '']);
  show('standbys', table(['task', 'state', 'input', 'is at', 'records read', 'offsets left', ''], rows, 'This instance keeps no copy of another instance’s task.'));
}

function peers({ status }) {
  const rows = (status.peers ?? []).map((p) => [p.instance, p.address ?? '–', pill(p.suspicion ? 'suspected' : p.connected ? 'connected' : 'unreachable'),
    [p.suspicion, p.why, p.fenced_in_vain ? `fenced in vain ${p.fenced_in_vain} times` : ''].filter(Boolean).join('; ')]);
  show('peers', status.peers_address ? make('p', {}, `Other instances dial ${status.peers_address}.`) : make('p', { class: 'empty' }, 'Peers are off.'),
    table(['instance', 'address', 'state', ''], rows, 'This instance watches no other one.'));
}

function transactions({ status }) {
  const rows = (status.hanging ?? []).map((h) => [h.transactional_id || `producer ${h.producer_id}`, `${h.producer_id}, epoch ${h.epoch}`,
    lines(h.partitions ?? []), h.verdict || 'unknown', lines(h.reasons ?? [])]);
  show('transactions', table(['transactional id', 'producer', 'partitions', 'ended by', 'evidence'], rows, 'No transaction hangs.'));
}

function settings({ settings }) {
  show('settings', table(['setting', 'value'], (settings ?? []).map((s) => [s.name, s.value]), 'None.'));
}

function head({ status, topology }, metrics) {
  document.title = `${status.application} · Onceward`;
  document.getElementById('application').textContent = status.application;
  document.getElementById('instance').textContent = status.instance;
  const state = document.getElementById('state');
  state.textContent = status.state;
  state.className = 'state ' + status.state;
  const mode = metrics.get('onceward_info')?.[0]?.labels.mode;
  document.getElementById('mode').textContent = [mode && mode !== 'LIVE' ? `mode ${mode}` : '', topology.fingerprint.slice(0, 12)].filter(Boolean).join(' · ');
}

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(patience), cache: 'no-store' });
  if (!answer.ok) throw new Error(`${path} answers ${answer.status}`);
  return answer;
}

async function refresh() {
  const away = document.getElementById('away');
  try {
    const [data, text] = await Promise.all([ask('data').then((a) => a.json()), ask('../metrics').then((a) => a.text())]);
    const metrics = parse(text);
    history.add(performance.now(), metrics, metrics.get('process_start_time_seconds')?.[0]?.value);
    for (const view of [head, problems, figures, topology, tasks, globals, standbys, peers, transactions, settings]) view(data, metrics);
    last = new Date();
    away.hidden = true;
    document.body.classList.remove('old');
  } catch (err) {
    away.textContent = `No answer from the instance${last ? ` since ${time(last)}` : ''}: ${err.message}.`
      + (last ? ' What is below is of that time.' : '');
    away.hidden = false;
    document.body.classList.add('old');
  }
}

for (;;) {
  if (!document.hidden) await refresh();
  await new Promise((resolve) => setTimeout(resolve, interval));
}
