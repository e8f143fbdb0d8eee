// The rows of a store under a key, from whichever instance has them.
import { lines, make, show, table, time } from './elements.js';

const form = document.getElementById('row-question');
const note = document.getElementById('row-note');
let offered = false;

// text returns a key or a value as it is read. Those of rows come as texts.
const text = (v) => v ?? '';

// where says what an answer contains, and of which instance it is.
function where(answer) {
  const at = answer.position;
  return [`Partition ${answer.partition}, read at ${answer.instance || 'this instance'}`
    + (answer.standby_age ? `, from a copy that was at the last commit ${answer.standby_age} ago` : '') + (at.round ? `, after round ${at.round}` : '') + '.',
  ...(at.inputs ?? []).map((i) => `It contains ${i.topic}[${i.partition}] below offset ${i.offset}.`)];
}

function draw(answer) {
  const times = ['time', 'start', 'end'].filter((t) => answer.rows.some((r) => r[t] !== undefined));
  show('row', table('Rows', ['key', 'value', ...times], answer.rows.map((r) => [text(r.key), make('code', {}, text(r.value)), ...times.map((t) => time(r[t]))]),
    'There is no row under this key.'), answer.more ? make('p', { class: 'empty' }, 'There are more rows.') : []);
  note.replaceChildren(...lines(where(answer)));
}

async function look() {
  const data = new FormData(form);
  const query = new URLSearchParams({ key: data.get('key') });
  if (data.get('partition')) query.set('partition', data.get('partition'));
  show('row');
  note.replaceChildren('Looking …');
  try {
    const got = await fetch(`rows/${encodeURIComponent(data.get('store'))}?${query}`, { cache: 'no-store', signal: AbortSignal.timeout(20_000) });
    const answer = await got.json().catch(() => ({}));
    if (!got.ok) throw new Error(answer.text ?? answer.error ?? `the instance answers ${got.status}`);
    draw(answer);
  } catch (err) {
    note.replaceChildren(`The row cannot be shown: ${err.message}`);
  }
}

form.addEventListener('submit', (e) => {
  e.preventDefault();
  look();
});

// row offers the stores once.
export function row(data) {
  if (offered) return;
  offered = true;
  form.hidden = !data.stores?.length;
  if (form.hidden) {
    note.replaceChildren('Rows are not shown: the program does not allow it (Config.Console.Contents, --console-contents), or the topology has no store.');
    return;
  }
  form.elements.store.append(...data.stores.map((s) => make('option', {}, s)));
}
