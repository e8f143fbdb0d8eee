// Asks the instance every two seconds what the application does, and shows the answer.
import { Rates, answers } from './rates.js';
import { draw } from './drawing.js';
import { letters } from './letters.js';
import { row } from './row.js';
import { count, duration, lines, make, pill, progress, rate, show, sum, table, time } from './elements.js';

const interval = 2000; // between two answers, in milliseconds
const patience = 10_000; // for one answer

const rates = new Rates();
let last = null; // the time of the last answer

// taskName returns the name of a task as logs and metrics have it.
const taskName = (id) => `${id.Subtopology}_${id.Partition}`;

// subtopologyOf returns the part of a task's name before the last underscore.
const subtopologyOf = (task) => task.slice(0, task.lastIndexOf('_'));

// nameOf returns the name of an instance. The one that answers has none before it has its directory.
const nameOf = (instance) => instance || 'this instance';

// every returns what f makes of the status of each instance that answers, in one list.
const every = (data, f) => data.instances.filter(answers).flatMap((i) => f(i.report.status, nameOf(i.instance)));

// tasksOf returns the tasks that instances report, each { id, instance, task }, and those of the plan
// that none reports, which have no task. The plan says where a task is to move.
function tasksOf(data) {
  const all = every(data, (status, instance) => (status.tasks ?? []).map((task) => ({ id: task.id, instance, task })));
  const known = new Map();
  for (const t of all) known.set(taskName(t.id), t);
  for (const p of data.planned ?? []) {
    const name = taskName(p.id);
    if (!known.has(name)) {
      const t = { id: p.id, instance: p.instance };
      all.push(t);
      known.set(name, t);
    }
    known.get(name).to = p.to;
  }
  const order = data.topology.subtopologies.map((s) => s.name);
  return all.sort((a, b) => order.indexOf(a.id.Subtopology) - order.indexOf(b.id.Subtopology) || a.id.Partition - b.id.Partition);
}

// lagOf returns the lag of all inputs of tasks, null if none is known.
function lagOf(tasks, reads = () => true) {
  const lags = tasks.flatMap((t) => t?.inputs ?? []).filter((i) => reads(i.topic)).map((i) => i.lag).filter((l) => l !== undefined && l !== null);
  return lags.length ? sum(lags) : null;
}

// records returns the function that counts the committed records of a report.
const records = (filter) => (report) => sum((report.counts.records ?? []).filter(filter).map((r) => r.count));

const without = (data) => data.instances.filter((i) => i.state === 'away').map((i) => nameOf(i.instance));

function problems(data) {
  const texts = new Map(); // to the instances that say so
  const add = (text, instance) => texts.set(text, new Set([...(texts.get(text) ?? []), ...(instance ? [instance] : [])]));
  for (const i of data.instances) {
    if (i.state === 'away') add(`instance ${nameOf(i.instance)} does not answer since ${time(i.since)}: ${i.why}`);
    if (answers(i)) for (const reason of i.report.not_ready ?? []) add(reason, nameOf(i.instance));
  }
  every(data, (status, instance) => {
    for (const a of status.alerts ?? []) add(a.text, instance);
    for (const t of status.tasks ?? []) {
      if (t.retry) add(`task ${taskName(t.id)} tries ${t.retry.record} again since ${time(t.retry.since)}, ${t.retry.attempts} times so far: ${t.retry.failure}`, instance);
      for (const w of t.waits ?? []) {
        if (w.held_by) add(`task ${taskName(t.id)} waits since ${time(w.since)} for a transaction on ${w.topic}[${w.partition}]: ${w.held_by}`, instance);
      }
    }
    for (const s of status.standbys ?? []) if (s.state === 'failing') add(`the copy of task ${taskName(s.id)} does not follow: ${s.reason}`, instance);
    if (status.not_looked_at) add(`transactions may hang in what was not looked at: ${status.not_looked_at}`, instance);
    return [];
  });
  const several = data.instances.length > 1;
  const items = [...texts].map(([text, by]) => make('li', {}, several && by.size ? `${text} (${[...by].join(', ')})` : text));
  show('problems', items.length === 0 ? make('p', { class: 'good' }, 'None.') : make('ul', {}, items));
}

function figures(data) {
  const totals = (name) => sum(every(data, (status) => [status.totals?.[name] ?? 0]));
  const grows = (name) => rate(rates.rate((report) => report.status.totals?.[name] ?? 0));
  const cards = [
    ['records', grows('records'), `${count(totals('records'))} in all`],
    ['outputs', grows('outputs'), `${count(totals('outputs'))} in all`],
    ['lag', count(lagOf(tasksOf(data).map((t) => t.task))), 'offsets of all inputs'],
    ['commit, p50', duration(rates.commitTime(0.5)), 'at most'],
    ['commit, p99', duration(rates.commitTime(0.99)), 'at most'],
    ['commits', grows('commits'), `${count(totals('commits'))} in all`],
    ['aborted rounds', count(totals('aborts')), 'in all'],
    ['dead letters', count(totals('dead_letters')), 'in all'],
  ];
  const missing = without(data);
  show('figures', make('dl', { class: 'cards' }, cards.map(([name, value, note]) =>
    make('div', {}, make('dt', {}, name), make('dd', {}, value), make('dd', { class: 'note' }, note)))),
  missing.length ? make('p', { class: 'empty' }, `Without ${missing.join(', ')}, which ${missing.length > 1 ? 'do' : 'does'} not answer.`) : []);
}

// howMany counts words: "2 running, 1 restoring".
function howMany(words) {
  const counts = new Map();
  for (const w of words) counts.set(w, (counts.get(w) ?? 0) + 1);
  return [...counts].map(([w, n]) => `${count(n)} ${w}`).join(', ');
}

function instances(data) {
  const planned = (name) => (data.planned ?? []).filter((p) => p.instance === name).length;
  const rows = data.instances.map((i) => {
    const name = nameOf(i.instance);
    const head = i.state === 'here' ? `${name} (serves this page)` : name;
    if (!answers(i)) {
      const about = i.state === 'left' ? `not in the plan of the group since ${time(i.left_at)}`
        : `no answer since ${time(i.since)}: ${i.why}${i.taken_ms ? `; the last one came ${time(i.taken_ms)}` : ''}`;
      return [head, pill(i.state), i.state === 'away' && planned(i.instance) ? `${planned(i.instance)} by the plan` : '–', '–', '–', '–', '–', '–', '–', about];
    }
    const status = i.report.status;
    const tasks = status.tasks ?? [];
    return [head, pill(status.state), howMany(tasks.map((t) => t.state)) || 'none', howMany((status.standbys ?? []).map((s) => s.state)) || 'none',
      rate(rates.rate((report) => report.status.totals?.records ?? 0, i.instance)), count(lagOf(tasks)), duration(rates.commitTime(0.99, i.instance)),
      count(status.totals?.dead_letters), time(i.report.started), status.peers_address ? `dialled at ${status.peers_address}` : ''];
  });
  show('instances', table('Instances', ['instance', 'state', 'tasks', 'standbys', 'records', 'lag', 'commit, p99', 'dead letters', 'started', ''], rows, ''),
    data.alone ? make('p', { class: 'empty' }, `${data.alone} This page shows one instance.`) : []);
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

function topology(data) {
  const { topology } = data;
  const tasks = tasksOf(data);
  const prefix = topology.application + '-';
  const local = (name) => (topology.internal_topics.includes(name) && name.startsWith(prefix) ? name.slice(prefix.length) : name);
  show('topology', inOrder(topology.subtopologies).map((sub) => {
    const ours = tasks.filter((t) => t.id.Subtopology === sub.name);
    const unknown = ours.filter((t) => !t.task).length;
    // A source by pattern reads all topics of the subtopology that no other source names.
    const named = new Set(sub.sources.map((source) => source.topic).filter(Boolean));
    const reads = (b, topic) => (b.topic ? topic === b.topic : !named.has(topic));
    const figure = (b) => {
      if (b.role === 'source') {
        const lag = lagOf(ours.map((t) => t.task), (topic) => reads(b, topic));
        const r = rates.rate(records((of) => subtopologyOf(of.task) === sub.name && reads(b, of.topic)));
        return [r === null ? '' : rate(r), lag === null ? '' : `lag ${count(lag)}`].filter(Boolean).join(', ');
      }
      if (b.role === 'processor') {
        const r = rates.rate((report) => sum((report.counts.outcomes ?? []).filter((o) => o.subtopology === sub.name && o.node === b.node).map((o) => o.count)));
        return r ? `${rate(r)} outcomes` : '';
      }
      return '';
    };
    const places = new Set(ours.filter((t) => t.task).map((t) => t.instance)).size;
    const caption = `${sub.name}: ${count(ours.length)} ${ours.length === 1 ? 'task' : 'tasks'}`
      + (data.alone ? ' here' : ` at ${count(places)} ${places === 1 ? 'instance' : 'instances'}`) + (unknown ? `, ${count(unknown)} of them not known` : '');
    return make('figure', {}, make('figcaption', {}, caption),
      make('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': `Topology of ${sub.name}` }, draw(sub, figure, local)));
  }));
}

function tasks(data) {
  const away = new Set(without(data));
  const rows = tasksOf(data).map(({ id, instance, task: t, to }) => {
    const work = [];
    const moves = to ? make('div', {}, `is to move to ${to}`) : [];
    if (!t) {
      const why = away.has(instance) ? 'by the plan of the group; the instance does not answer' : 'by the plan of the group; the instance does not report it yet';
      return [taskName(id), instance, pill('unknown'), '–', '–', '–', '–', '–', '–', '–', [make('div', {}, why), moves].flat()];
    }
    if (t.state === 'restoring') {
      work.push(progress(t.restored ?? 0, t.remaining ?? 0), make('div', {}, `${count(t.restored ?? 0)} read, ${count(t.remaining ?? 0)} offsets left`
        + (t.restore_left_ns ? `, about ${duration(t.restore_left_ns / 1e9)}` : '')));
    }
    if (t.reason) work.push(make('div', {}, t.reason));
    for (const p of t.parked ?? []) work.push(make('div', {}, `${count(p.records)} records of ${count(p.keys)} keys parked in ${p.topic}`));
    const inputs = t.inputs ?? [];
    return [taskName(id), instance, pill(t.state), lines(inputs.map((i) => `${i.topic}[${i.partition}]`)), lines(inputs.map((i) => count(i.offset))),
      lines(inputs.map((i) => count(i.lag))), rate(rates.rate(records((of) => of.task === taskName(id)), instance)), count(t.records),
      count(t.dead_letters), lines(inputs.map((i) => time(i.stream_time))), [work, moves].flat()];
  });
  show('tasks', table('Tasks', ['task', 'instance', 'state', 'input', 'committed', 'lag', 'rate', 'records', 'dead letters', 'stream time', ''], rows,
    data.alone ? 'This instance has no task now. Tasks are where the group assigned them.' : 'No instance has a task now.'));
}

function globals(data) {
  const rows = every(data, (status, instance) => (status.global_tables ?? []).map((g) => [g.store, instance, g.topic, pill(g.state), count(g.records),
    count(g.skipped ?? 0), count(g.remaining ?? 0), count(g.lag ?? 0), g.cause ?? '']));
  document.getElementById('globals').hidden = rows.length === 0;
  show('globals', table('Global tables', ['store', 'instance', 'topic', 'state', 'records', 'skipped', 'offsets left', 'lag', 'read from the start because'], rows, ''));
}

function standbys(data) {
  const rows = every(data, (status, instance) => (status.standbys ?? []).map((s) => [taskName(s.id), instance, pill(s.state),
    lines((s.inputs ?? []).map((i) => `${i.topic}[${i.partition}]`)), lines((s.inputs ?? []).map((i) => count(i.offset))), count(s.restored),
    s.state === 'restoring' ? [progress(s.restored ?? 0, s.remaining ?? 0), make('div', {}, count(s.remaining ?? 0))] : count(s.remaining ?? 0), s.reason ?? '']));
  show('standbys', table('Standbys', ['task', 'copy at', 'state', 'input', 'is at', 'records read', 'offsets left', ''], rows,
    data.alone ? 'This instance keeps no copy of another instance’s task.' : 'No instance keeps a copy of another one’s task.'));
}

function peers(data) {
  const rows = every(data, (status, instance) => (status.peers ?? []).map((p) => [instance, p.instance, p.address ?? '–',
    pill(p.suspicion ? 'suspected' : p.connected ? 'connected' : 'unreachable'),
    [p.suspicion, p.why, p.fenced_in_vain ? `fenced in vain ${p.fenced_in_vain} times` : ''].filter(Boolean).join('; ')]));
  show('peers', table('Peers', ['instance', 'watches', 'at', 'state', ''], rows, data.alone || 'No instance watches another one.'));
}

function transactions(data) {
  const found = new Map(); // each instance looks at all of the application
  every(data, (status) => (status.hanging ?? []).map((h) => found.set(`${h.producer_id} ${h.epoch}`, h)));
  const rows = [...found.values()].map((h) => [h.transactional_id || `producer ${h.producer_id}`, `${h.producer_id}, epoch ${h.epoch}`,
    lines(h.partitions ?? []), h.verdict || 'unknown', lines(h.reasons ?? [])]);
  show('transactions', table('Transactions', ['transactional id', 'producer', 'partitions', 'ended by', 'evidence'], rows, 'No transaction hangs.'));
}

function settings(data) {
  show('settings', data.instances.length > 1 ? make('p', { class: 'empty' }, `Of ${nameOf(data.instance)}, which serves this page.`) : [],
    table('Settings', ['setting', 'value'], (data.settings ?? []).map((s) => [s.name, s.value]), 'None.'));
}

function head(data) {
  const own = data.instances.find((i) => i.state === 'here').report.status;
  const there = data.instances.filter((i) => i.state !== 'left');
  document.title = `${own.application} · Onceward`;
  document.getElementById('application').textContent = own.application;
  document.getElementById('instance').textContent = there.length === 1 ? nameOf(data.instance)
    : `${nameOf(data.instance)} · ${there.filter(answers).length} of ${there.length} instances answer`;
  const state = document.getElementById('state');
  state.textContent = own.state;
  state.className = 'state ' + own.state;
  const mode = data.settings?.find((s) => s.name === 'Mode')?.value;
  document.getElementById('mode').textContent = [mode && mode !== 'LIVE' ? `mode ${mode}` : '', data.topology.fingerprint.slice(0, 12)].filter(Boolean).join(' · ');
}

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(patience), cache: 'no-store' });
  if (!answer.ok) throw new Error(`${path} answers ${answer.status}`);
  return answer.json();
}

async function refresh() {
  const away = document.getElementById('away');
  try {
    const data = await ask('data');
    rates.add(data.instances);
    for (const view of [head, problems, instances, figures, topology, tasks, globals, standbys, peers, transactions, letters, row, settings]) view(data);
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
