// The dead letters: a list that is asked for when it is looked at, and the redrive where it is
// allowed.
import { count, lines, make, pill, show, table, time } from './elements.js';

const patience = 150_000; // for an action, in milliseconds
const form = document.getElementById('letter-filter');
const note = document.getElementById('letter-note');

let can = null; // what the instance allows, null before its first answer
let listed = []; // the letters that are shown
const chosen = new Map(); // the letters by place: several can have the same id

// say tells what has come of a request, also to a person who hears the page.
const say = (...content) => note.replaceChildren(...content.flat());

async function answer(path, options = {}) {
  const got = await fetch(path, { cache: 'no-store', ...options });
  const body = await got.json().catch(() => ({}));
  if (!got.ok && !body.outcomes) throw new Error(body.error ?? `${path} answers ${got.status}`);
  return body;
}

const place = (p) => `${p.topic}[${p.partition}]@${p.offset}`;
const placeOf = (l) => `${l.at.partition}@${l.at.offset}`;
const open = (l) => !l.redriven && !l.cut;

function stateOf(l) {
  return [pill(l.redriven ? 'redriven' : 'waiting'), l.redriven ? ` ${time(l.redriven)}` : '', l.edition ? `, edition ${l.edition}` : '', l.cut ? `, cut (${l.cut})` : ''];
}

// choice returns the id of a letter, with a box to choose it where it can be redriven.
function choice(l) {
  if (!can.actions || !open(l)) return l.id;
  const box = make('input', { type: 'checkbox', value: placeOf(l) });
  box.checked = chosen.has(placeOf(l));
  box.addEventListener('change', () => {
    if (box.checked) chosen.set(placeOf(l), l); else chosen.delete(placeOf(l));
    buttons();
  });
  return make('label', {}, box, ' ', l.id);
}

function buttons() {
  for (const b of document.querySelectorAll('#letters .act')) b.disabled = chosen.size === 0;
}

function draw(list) {
  listed = list.letters;
  for (const at of chosen.keys()) if (!listed.some((l) => placeOf(l) === at && open(l))) chosen.delete(at);
  const heads = ['dead letter', 'failed last', 'class', 'error', 'node', 'record', 'tried', 'state', 'goes to'];
  if (can.contents) heads.push('key', 'value');
  const rows = listed.map((l) => {
    const row = [choice(l), time(l.last_failure), l.class, l.message, l.node || '–', lines([place(l.origin), ...(l.source ? [`of ${place(l.source)}`] : [])]),
      lines([`${count(l.attempts)} times`, ...(l.deaths > 1 ? [`died ${count(l.deaths)} times`] : [])]), stateOf(l), l.to];
    if (can.contents) row.push(make('code', {}, l.content?.key ?? ''), make('code', {}, l.content?.value ?? ''));
    return row;
  });
  const below = [];
  if (list.more) below.push(make('p', { class: 'empty' }, `The newest ${count(listed.length)} are shown. There are more.`));
  if (list.looked) below.push(make('p', { class: 'empty' }, `The last ${count(list.looked)} records of the topic were looked at. \`onceward deadletters list\` looks at all.`));
  if (can.actions && listed.some(open)) {
    const act = (text, dry) => {
      const b = make('button', { type: 'button', class: 'act' }, text);
      b.addEventListener('click', () => redrive(dry));
      return b;
    };
    below.push(make('p', {}, act('Check the chosen ones', true), ' ', act('Redrive the chosen ones', false)));
  }
  show('letters', table('Dead letters', heads, rows, 'There is no such dead letter.'), below);
  buttons();
}

async function look() {
  const query = new URLSearchParams([...new FormData(form)].filter(([, v]) => v !== ''));
  try {
    draw(await answer(`dead-letters?${query}`, { signal: AbortSignal.timeout(20_000) }));
    return true;
  } catch (err) {
    say(`The dead letters cannot be listed: ${err.message}`);
    return false;
  }
}

// redrive writes the chosen records again, or says what that would do. It names the letters as they
// were shown, so that what has changed since is left.
async function redrive(dry) {
  const named = [...chosen.values()].map((l) => ({ id: l.id, deaths: l.deaths, at: l.at }));
  for (const b of document.querySelectorAll('#letters .act')) b.disabled = true;
  say(dry ? 'Checking …' : 'Redriving …');
  try {
    const done = await answer('dead-letters/redrive', {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ letters: named, dry_run: dry }), signal: AbortSignal.timeout(patience),
    });
    const text = (o) => `${o.id}: ${dry && o.outcome === 'redriven' ? 'would be redriven' : o.outcome}${o.to ? `, ${o.to}` : ''}`;
    say(make('p', {}, dry ? 'Nothing was written.' : done.error ? `The redrive has ended: ${done.error}` : 'Done.'),
      make('ul', {}, done.outcomes.map((o) => make('li', {}, text(o)))));
    if (!dry) {
      chosen.clear();
      await look();
    }
  } catch (err) {
    say(`${dry ? 'The check' : 'The redrive'} has failed: ${err.message}. It can be repeated: what was redriven, or has changed since it was listed, is left.`);
  }
  buttons();
}

form.addEventListener('submit', (e) => {
  e.preventDefault();
  say();
  look();
});

// letters takes what the instance allows. The list is asked for once, and then by the form.
export function letters(data) {
  if (can !== null) return;
  can = data.letters;
  form.hidden = Boolean(can.why);
  if (can.why) {
    show('letters', make('p', { class: 'empty' }, can.why));
    return;
  }
  document.getElementById('letter-topic').textContent = `of ${can.topic}`;
  form.elements.class.append(...can.classes.map((c) => make('option', {}, c)));
  const topics = new Set(data.topology.subtopologies.flatMap((s) => s.sources.map((source) => source.topic)).filter(Boolean));
  form.elements.source.append(...[...topics].map((t) => make('option', {}, t)));
  look();
}
