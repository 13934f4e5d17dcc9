// The page of a fleet. While it is being written, it loads itself again.

const fleet = data.fleet;

// A time that passed, for people.
function age(seconds) {
  if (seconds < 60) return Math.round(seconds) + ' s';
  if (seconds < 3600) return Math.round(seconds / 60) + ' min';
  return seconds < 86400 ? number(seconds / 3600, 2) + ' h' : number(seconds / 86400, 2) + ' days';
}

const clock = ms => new Date(ms).toISOString().slice(11, 19);
const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);
const code = text => el('span', {class: 'code'}, text);
const plural = (count, one) => `${number(count)} ${one}${count === 1 ? '' : 's'}`;

// ---- now and before

// [ms, trials a second] between samples.
function rates() {
  const out = [];
  data.samples.forEach(([at, measured], i) => {
    if (i === 0) return;
    const [before, then] = data.samples[i - 1];
    if (at > before) out.push([at, Math.max(0, measured - then) * 1000 / (at - before)]);
  });
  return out;
}

// Trials a second of the last quarter of a minute, or of what there is of it; before that, what the machines say.
function rateNow() {
  const last = data.samples.at(-1), first = data.samples.findLast(one => one[0] <= last[0] - 15000) || data.samples[0];
  if (last[0] > first[0]) return Math.max(0, last[1] - first[1]) * 1000 / (last[0] - first[0]);
  return sum(fleet.machines, 'trials_per_second');
}

function overview() {
  const failed = sum(fleet.machines, 'failed'), all = failed + sum(fleet.machines, 'good');
  return el('div', {class: 'card'}, facts([
    ['machines', number(data.machines - data.gone), data.gone > 0 ? `${number(data.gone)} more are gone` : 'none is gone'],
    ['trials a second', data.samples.length > 0 ? number(rateNow()) : '–'],
    ['trials in the queue', number(sum(fleet.tuners, 'queued')), `${number(sum(fleet.tuners, 'leased'))} more are being measured`],
    ['tuners', number(data.tuners)],
    ['trials measured', number(fleet.measured), all > 0 ? `${percent(failed / all)} failed` : ''],
    ['faults', number(sum(fleet.faults, 'count')), 'not measured, by no fault of the trial'],
  ]), data.samples.length > 2 ? [
    el('h4', {}, 'Trials a second'), timeChart('Trials a second', [{name: 'curve', points: rates()}]),
    el('h4', {}, 'Trials in the queue'),
    timeChart('Trials in the queue', [{name: 'bound', points: data.samples.map(one => [one[0], one[3]])},
                                      {name: 'curve', points: data.samples.map(one => [one[0], one[2]])}]),
    el('ul', {class: 'legend'}, entry(sampleLine('curve'), 'waiting'), entry(sampleLine('bound'), 'being measured')),
  ] : null);
}

// Lines over time. series: {name, points: [[ms, value]]}; the last one is pointed at.
function timeChart(title, series) {
  return chart(width => {
    const height = Math.round(Math.max(120, Math.min(180, width * 0.25)));
    const box = {left: 48, right: width - 14, top: 10, bottom: height - 24};
    const pointed = series.at(-1).points, all = series.flatMap(one => one.points);
    const begin = Math.min(...all.map(one => one[0])), end = Math.max(...all.map(one => one[0]));
    const high = Math.max(1, ...all.map(one => one[1])) * 1.07;
    const x = scale(begin, end, box.left, box.right), y = scale(0, high, box.bottom, box.top);
    const out = picture(width, height, title, `From ${number(pointed[0][1])} at ${clock(begin)} UTC to ` +
      `${number(pointed.at(-1)[1])} at ${clock(end)} UTC; at most ${number(high / 1.07)}.`);
    axes(out, box, x, y, [], linearTicks(0, high, 4), tick => tick, tick => number(tick));
    out.append(svg('text', {x: box.left, y: height - 6}, clock(begin)),
               svg('text', {x: box.right, y: height - 6, 'text-anchor': 'end'}, clock(end) + ' UTC'));
    for (const {name, points} of series) {
      out.append(svg('path', {class: name, d: points.map(([at, value], i) =>
        `${i ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join('')}));
    }
    const points = pointed.map(([at, value]) => (
      {x: x(at), y: y(value), text: `${clock(at)} UTC: ${number(value)}`, distance: px => Math.abs(px - x(at))}));
    return {picture: out, points, hint: ''};
  });
}

// ---- machines and tuners

const kShownMachines = 50;

function machineTable(machines, caption) {
  return table([
    ['machine', '', row => row.name],
    ['heard', 'number', row => row.gone ? 'gone' : age(row.heard_seconds_ago) + ' ago'],
    ['measures', '', row => row.measures.length > 0 ? row.measures.join(', ') : '–'],
    ['trials/s', 'number', row => number(row.trials_per_second)],
    ['leased', 'number', row => number(row.leased)],
    ['good', 'number', row => number(row.good)],
    ['failed', 'number', row => number(row.failed)],
    ['faults', 'number', row => number(row.faults)],
    ['lost', 'number', row => number(row.lost)],
    ['late', 'number', row => number(row.late + row.repeated)],
  ], machines, caption);
}

function machineCard() {
  const first = fleet.machines.slice(0, kShownMachines), others = fleet.machines.slice(kShownMachines);
  const unlisted = data.machines - fleet.machines.length;
  return el('div', {class: 'card'},
    machineTable(first, 'Machines, those that measure most first'),
    others.length > 0 ? folded(`${number(others.length)} more`, machineTable(others, 'More machines')) : null,
    unlisted > 0 ? el('p', {class: 'muted'}, `${plural(unlisted, 'machine')} more: \`tracewright fleet ADDRESS\` lists all.`) : null,
    folded('What they are', table([
      ['machine', '', row => row.name],
      ['targets', 'long', row => row.targets.map(target => el('div', {class: 'code'}, target))],
      ['processor', 'long', row => row.host],
      ['memory', '', row => number(row.memory_bytes / 2 ** 30) + ' GiB'],
      ['version', '', row => row.version],
    ], fleet.machines, 'What the machines are')));
}

function tunerCard() {
  const rows = fleet.tuners.flatMap(tuner => tuner.tasks.length > 0
    ? tuner.tasks.map(task => ({tuner, ...task})) : [{tuner, name: null, queued: 0, leased: 0}]);
  const waiting = fleet.tuners.flatMap(tuner => tuner.waiting.map(target => ({tuner, target})));
  return el('div', {class: 'card'},
    table([
      ['tuner', '', row => row.tuner.name],
      ['heard', 'number', row => age(row.tuner.heard_seconds_ago) + ' ago'],
      ['task', '', row => row.name === null ? '–' : row.name],
      ['waiting', 'number', row => number(row.queued)],
      ['being measured', 'number', row => number(row.leased)],
      ['target', 'long', row => row.name === null ? '–' : code(row.target)],
    ], rows, 'Trials in the queue, by tuner and task'),
    waiting.length > 0 ? table([
      ['target without a machine', 'long', row => code(row.target)],
      ['tuner', '', row => row.tuner.name],
    ], waiting, 'Nobody measures for these') : null);
}

// ---- failures

function failureCard() {
  const all = fleet.failures.map(one => ({...one, isFault: false})).concat(fleet.faults.map(one => ({...one, isFault: true})));
  const kinds = new Map(), machines = new Map();
  for (const one of all) {
    kinds.set(one.kind, (kinds.get(one.kind) || 0) + one.count);
    const row = machines.get(one.machine) || {machine: one.machine, counts: new Map(), total: 0};
    row.counts.set(one.kind, (row.counts.get(one.kind) || 0) + one.count);
    row.total += one.count;
    machines.set(one.machine, row);
  }
  const columns = [...kinds].sort((a, b) => b[1] - a[1]).map(([kind]) =>
    [kind, 'number', row => row.counts.has(kind) ? number(row.counts.get(kind)) : '–']);
  const rows = [...machines.values()].sort((a, b) => b.total - a.total);
  return el('div', {class: 'card'},
    table([['machine', '', row => row.machine || '–'], ...columns, ['all', 'number', row => number(row.total)]], rows,
          'Failures by machine and kind'),
    folded('The last message of each', table([
      ['kind', '', row => row.kind],
      ['machine', '', row => row.machine || '–'],
      ['times', 'number', row => number(row.count)],
      ['counts against', '', row => row.isFault ? 'nobody: not measured' : 'the candidate'],
      ['the last message', 'long', row => row.message || '–'],
    ], all, 'Failures with their last message')));
}

// ---- curves

function taskCard(task) {
  const worked = task.best_us !== null;
  return el('article', {class: 'card'},
    el('h3', {}, task.name),
    el('p', {class: 'muted'}, code(task.target), ` on ${task.machine}`),
    facts([
      ['best', time(task.best_us), worked ? `trial ${number(task.best_trial)}` : 'no trial worked'],
      ['of the roof', percent(task.share_of_roof)],
      ['against the zero-trial kernel', gain(task.zero_trial_us, task.best_us)],
      ['trials', number(task.trials), task.failed > 0 ? `${number(task.failed)} failed` : 'none failed'],
    ]),
    worked ? [curveChart(task), curveLegend(task)] : null);
}

// ---- the page loads itself again

// What the reader has opened, how far the page was scrolled.
function keepPlace() {
  keep({scroll: scrollY, open: [...document.querySelectorAll('details')].map(one => one.open)});
}

function restorePlace() {
  const {scroll, open} = kept();
  const all = document.querySelectorAll('details');
  if (open && open.length === all.length) all.forEach((one, i) => { one.open = open[i]; });
  // Charts have their height after a frame.
  if (scroll) requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(0, scroll)));
}

let isPaused = Boolean(kept().paused);

function loadAgain() {
  const isReading = !getSelection().isCollapsed;
  if (isPaused || isReading) return;
  keepPlace();
  location.reload();
}

function pauseButton() {
  const button = el('button', {type: 'button', id: 'pause'});
  const name = () => { button.textContent = isPaused ? 'Go on' : 'Pause'; };
  button.addEventListener('click', () => { isPaused = !isPaused; keep({paused: isPaused}); name(); });
  name();
  document.getElementById('scheme').before(button);
}

// Says how old the page is; where nobody writes it any more, loudly.
function sayAge() {
  const seconds = (Date.now() - data.created_ms) / 1000, isOld = seconds > Math.max(30, data.refresh_ms / 1000 * 5);
  const state = data.refresh_ms === 0 ? 'It is not written any more.' :
    isPaused ? `Paused, ${age(Math.max(0, seconds))} old.` : `Written again every ${number(data.refresh_ms / 1000)} s.`;
  document.getElementById('about').textContent =
    `${data.address} at ${clock(data.created_ms)} UTC, by tracewright ${data.version}. ${state}`;
  const warning = document.getElementById('old');
  warning.hidden = !(isOld && data.refresh_ms > 0 && !isPaused);
  warning.textContent = `This page was written ${age(Math.max(0, seconds))} ago: does \`tracewright fleet --html\` still run?`;
}

function build() {
  const page = document.getElementById('page'), hasFailures = fleet.failures.length + fleet.faults.length > 0;
  schemeButton();
  add(page, [
    el('p', {class: 'card problem', id: 'old', hidden: ''}),
    data.problem ? el('p', {class: 'card problem', role: 'alert'}, data.problem) : null,
    overview(),
    section('Machines', fleet.machines.length > 0 ? machineCard() :
      el('p', {class: 'card'}, 'No machine measures; `tracewright measure --database ADDRESS` lends one.')),
    fleet.tuners.length > 0 ? section('Queue', tunerCard()) : null,
    hasFailures ? section('Failures', failureCard()) : null,
    data.tasks.length > 0 ? section('Tasks', data.tasks.map(taskCard)) : null,
  ]);
  sayAge();
  setInterval(sayAge, 1000);
  if (data.refresh_ms > 0) {
    pauseButton();
    restorePlace();
    setInterval(loadAgain, data.refresh_ms);
  }
}

build();
