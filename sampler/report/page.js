// What pages are made of. Everything comes out of the data that is embedded in the page.

const data = JSON.parse(document.getElementById('data').textContent);

function share(part) {
  if (part === null || part === undefined) return '–';
  const bar = el('b', {});
  bar.style.width = Math.min(100, part * 100) + '%';
  return el('span', {class: 'share'}, percent(part), el('i', {'aria-hidden': 'true'}, bar));
}

function facts(pairs) {
  return el('dl', {class: 'facts'}, pairs.filter(Boolean).map(([name, value, more]) =>
    el('div', {}, el('dt', {}, name), el('dd', {}, value, more ? el('small', {}, more) : null))));
}

// Columns: [head, kind, cell(row)], kind: '', 'number' or 'long'.
function table(columns, rows, caption) {
  const head = columns.map(([name, kind]) => el('th', kind === 'number' ? {class: kind, scope: 'col'} : {scope: 'col'}, name));
  const line = row => el('tr', {},
    columns.map(([name, kind, cell]) => el('td', kind ? {class: kind, 'data-head': name} : {'data-head': name}, el('div', {}, cell(row)))));
  const isLong = columns.some(([, kind]) => kind === 'long');
  return [el('p', {class: 'muted above', 'aria-hidden': 'true'}, caption),
          el('div', {class: 'scroll', tabindex: '0', role: 'group', 'aria-label': caption},
    el('table', isLong ? {class: 'cards', 'aria-label': caption} : {'aria-label': caption}, el('thead', {}, el('tr', {}, head)), el('tbody', {}, rows.map(line))))];
}

function folded(summary, ...content) {
  return el('details', {}, el('summary', {}, summary), content);
}

function section(title, ...content) {
  return el('section', {}, el('h2', {}, title), content);
}

function gain(before, now) {
  return before === null || now === null ? '–' : number(before / now) + 'x';
}

// What the reader chose lasts until the tab is closed, where the browser lets a page keep it.
function kept() {
  try {
    return JSON.parse(sessionStorage.getItem('tracewright')) || {};
  } catch {
    return {};
  }
}

function keep(values) {
  try {
    sessionStorage.setItem('tracewright', JSON.stringify({...kept(), ...values}));
  } catch {
    // Then it lasts until the page is loaded again.
  }
}

function schemeButton() {
  const button = document.getElementById('scheme'), root = document.documentElement;
  const dark = () => root.dataset.scheme ? root.dataset.scheme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const name = () => { button.textContent = dark() ? 'Light colours' : 'Dark colours'; };
  if (kept().scheme) root.dataset.scheme = kept().scheme;
  button.addEventListener('click', () => {
    root.dataset.scheme = dark() ? 'light' : 'dark';
    keep({scheme: root.dataset.scheme});
    name();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', name);
  button.hidden = false;
  name();
}
