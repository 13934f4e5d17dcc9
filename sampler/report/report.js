// The page of a report.

function limitText(item) {
  return item.bound_by === 'data' ? `data (${item.level})` : item.bound_by || '–';
}

function boundText(item) {
  if (item.share_of_roof === null) return 'roof not known';
  return 'bounded by ' + limitText(item);
}

const rooms = new Set(data.tasks.map(task => task.database));
const machines = new Set(data.tasks.map(task => task.machine + task.target));

function about() {
  const made = new Date(data.created_ms).toISOString().slice(0, 16).replace('T', ' ');
  const from = data.databases.concat(data.models.map(model => model.folder)).join(', ');
  document.getElementById('about').textContent = `Made ${made} UTC by tracewright ${data.version} from ${from}`;
  if (data.models.length + data.databases.length === 1) document.title = `${from} – tracewright report`;
}

// ---- models

function kernelsOf(model) {
  const kernels = new Map();
  for (const step of model.steps) {
    const one = kernels.get(step.kernel) || {...step, us: 0, bound_us: 0, share: 0, calls: 0, of: step.name};
    one.us += step.us, one.share += step.share, one.calls += 1;
    one.bound_us = step.bound_us === null || one.bound_us === null ? null : one.bound_us + step.bound_us;
    kernels.set(step.kernel, one);
  }
  const sorted = [...kernels.values()].sort((a, b) => b.us - a.us);
  for (const one of sorted) {
    one.gflops = one.flops === null ? null : one.flops * one.calls / one.us / 1e3;
    one.share_of_roof = one.bound_us === null ? null : one.bound_us / one.us;
  }
  return sorted;
}

function modelCard(model) {
  const kernels = kernelsOf(model), roof = data.roofs[model.roof];
  const rank = new Map(kernels.map((kernel, i) => [kernel.kernel, i + 1]));
  const swatch = kernel => el('span', {class: `swatch c${rank.get(kernel) <= 6 ? rank.get(kernel) : 0}`}, rank.get(kernel));
  const flops = model.steps.reduce((sum, step) => sum + (step.flops || 0), 0);
  const bound = model.steps.every(step => step.bound_us !== null) ? model.steps.reduce((sum, step) => sum + step.bound_us, 0) : null;
  return el('article', {class: 'card'},
    el('h3', {}, model.name),
    el('p', {class: 'muted'}, `${model.folder}; target `, el('code', {}, model.target), `; roofs ${roof.source}, on ${roof.machine}`),
    facts([
      ['all steps', time(model.us), model.threads === 1 ? 'one thread' : `${model.threads} threads`],
      ['GFLOP/s', flops > 0 ? number(flops / model.us / 1e3) : '–'],
      ['of the roofs of its steps', bound === null ? '–' : percent(bound / model.us)],
      ['steps', String(model.steps.length), `${kernels.length} different kernels`],
      ['memory between steps', bytesText(model.memory_bytes)],
    ]),
    el('h4', {}, 'Timeline'),
    timelineChart(model, rank),
    table([
      ['', '', row => swatch(row.kernel)],
      ['kernel', '', row => el('span', {class: 'code'}, row.kernel)],
      ['time', 'number', row => time(row.us)],
      ['share', 'number', row => share(row.share)],
      ['of the roof', 'number', row => share(row.share_of_roof)],
      ['bounded by', '', limitText],
      ['above the roof', 'number', row => row.bound_us === null ? '–' : time(Math.max(0, row.us - row.bound_us))],
      ['GFLOP/s', 'number', row => number(row.gflops)],
      ['calls', 'number', row => String(row.calls)],
    ], kernels, 'Kernels, the one that takes longest first'),
    folded('All steps in order', table([
      ['', '', row => swatch(row.kernel)],
      ['step', '', row => row.name],
      ['kernel', '', row => el('span', {class: 'code'}, row.kernel)],
      ['time', 'number', row => time(row.us)],
      ['share', 'number', row => percent(row.share)],
      ['operations', 'number', row => number(row.flops)],
      ['data', 'number', row => bytesText(row.bytes)],
    ], model.steps, 'Steps')));
}

// ---- rooflines

function pointText(name, kernel) {
  return `${name}: ${number(kernel.gflops)} GFLOP/s, ${number(kernel.flops / kernel.bytes)} operations for each byte, ` +
    `${percent(kernel.share_of_roof)} of the roof`;
}

function pointsOf(roof) {
  const points = [];
  data.tasks.filter(task => task.roof === roof && task.gflops !== null && task.bytes > 0).forEach(task => points.push({
    name: task.name, intensity: task.flops / task.bytes, gflops: task.gflops,
    text: pointText(task.name, task)}));
  data.models.filter(model => model.roof === roof).forEach(model => kernelsOf(model).forEach(kernel => {
    if (kernel.gflops === null || !(kernel.bytes > 0) || !(kernel.flops > 0)) return;
    points.push({name: kernel.kernel, isStep: true, intensity: kernel.flops / kernel.bytes, gflops: kernel.gflops,
      text: pointText(`${kernel.kernel} of ${model.name}`, kernel)});
  }));
  return points.filter(point => point.gflops > 0 && point.intensity > 0);
}

function roofCards() {
  return data.roofs.map((roof, i) => {
    const points = pointsOf(i);
    if (points.length === 0) return null;
    return el('article', {class: 'card'},
      el('h3', {}, roof.machine),
      el('p', {class: 'muted'}, 'target ', el('code', {}, roof.target), `; roofs: ${roof.source}`),
      roofChart(roof, points), roofLegend(roof, points));
  }).filter(Boolean);
}

// ---- tasks

function taskTable() {
  const link = task => el('a', {href: '#task' + data.tasks.indexOf(task)}, task.name);
  return el('div', {class: 'card'}, table([
    ['task', '', link],
    ['best', 'number', task => time(task.best_us)],
    ['GFLOP/s', 'number', task => number(task.gflops)],
    ['of the roof', 'number', task => share(task.share_of_roof)],
    ['zero-trial kernel', 'number', task => time(task.zero_trial_us)],
    ['gain of tuning', 'number', task => gain(task.zero_trial_us, task.best_us)],
    ['trials', 'number', task => number(task.trials)],
    ['failed', 'number', task => number(task.failed)],
    ...(machines.size > 1 ? [['target', '', task => el('span', {class: 'code'}, task.target)], ['machine', 'long', task => task.machine]] : []),
    ...(rooms.size > 1 ? [['database', '', task => task.database]] : []),
  ], data.tasks, 'Tasks and their best kernels'));
}

function valuesText(effect) {
  const values = effect.values.map(one => `${one.value}: ${time(one.best_us)} (${one.trials})`);
  return values.join(', ') + (effect.other_values > 0 ? ` and ${effect.other_values} slower values` : '');
}

function decisionTable(task) {
  if (task.decisions.length === 0)
    return el('p', {class: 'muted'}, task.best_us === null ? 'No trial worked.' : 'The best kernel has no decisions that could be read.');
  const canSay = task.decisions.some(effect => effect.importance !== null);
  const isVague = canSay && task.decisions.every(effect => effect.importance < 0.02);
  return [
    el('p', {class: 'muted'}, `Of ${number(task.decided_trials)} trials that differ from the best one in decisions alone. ` + (canSay
      ? 'Weight: the part of the differences in log(time) that goes with the value. The trials are those that the search chose, not a random sample; decisions that go together share their weight.' +
        (isVague ? ' No decision explains the differences alone.' : '')
      : 'Too few, or too much alike, to say what matters; the values that were tried are listed.')),
    table([
      ['decision', '', effect => [el('span', {class: 'code'}, effect.name), el('div', {class: 'muted'}, effect.kind)]],
      ['weight', 'number', effect => effect.importance === null ? '–' : share(effect.importance)],
      ['best has', '', effect => el('span', {class: 'code'}, effect.chosen)],
      ['values with their best time (trials)', 'long', valuesText],
    ], task.decisions, `Decisions of ${task.name}`)];
}

function failureTable(failures, caption, withTask) {
  return table([
    ['kind', '', failure => failure.status],
    ['count', 'number', failure => number(failure.count)],
    ...(withTask ? [['tasks', 'number', failure => number(failure.tasks)]] : []),
    ['an example', 'long', failure => [failure.message || '–', el('div', {class: 'muted'}, `${failure.task ? failure.task + ', ' : ''}record ${failure.record}`)]],
  ], failures, caption);
}

function taskCard(task, index) {
  const worked = task.best_us !== null;
  return el('article', {class: 'card', id: 'task' + index},
    el('h3', {}, task.name),
    el('p', {class: 'muted'}, el('code', {}, task.target), ` on ${task.machine}` + (rooms.size > 1 ? `, ${task.database}` : '')),
    facts([
      ['best', time(task.best_us), task.best_cold_us !== null ? `cold ${time(task.best_cold_us)}` : ''],
      ['GFLOP/s', number(task.gflops), task.flops === null ? 'the workload cannot be read' : `${number(task.flops / 1e6)} million operations`],
      ['of the roof', percent(task.share_of_roof), worked ? boundText(task) : ''],
      ['against the zero-trial kernel', gain(task.zero_trial_us, task.best_us), `zero-trial ${time(task.zero_trial_us)}`],
      task.untuned_us !== null && ['against the untuned program', gain(task.untuned_us, task.best_us), `untuned ${time(task.untuned_us)}`],
      ['trials', number(task.trials), task.failed > 0 ? `${number(task.failed)} failed` : 'none failed'],
    ]),
    worked ? [el('h4', {}, 'Tuning curve'), curveChart(task), curveLegend(task),
              task.curve_is_thinned ? el('p', {class: 'muted'}, 'The curve has very many steps; some are left out.') : null] : null,
    el('h4', {}, 'Decisions that matter'), decisionTable(task),
    task.failures.length > 0 ? folded(`Failures (${number(task.failed)})`, failureTable(task.failures, `Failures of ${task.name}`)) : null,
    task.best_schedule ? folded(`The best kernel's schedule (record ${task.best_record})`, el('pre', {tabindex: '0'}, task.best_schedule)) : null);
}

// ---- failures of all tasks

function allFailures() {
  const kinds = new Map();
  for (const task of data.tasks) {
    for (const failure of task.failures) {
      const one = kinds.get(failure.status) || {...failure, count: 0, tasks: 0, task: task.name};
      one.count += failure.count, one.tasks += 1;
      kinds.set(failure.status, one);
    }
  }
  return [...kinds.values()].sort((a, b) => b.count - a.count);
}

function notes() {
  const thinned = data.tasks.some(task => task.dots.length < task.timed);
  return section('What the numbers mean', el('ul', {class: 'muted'},
    [
      'Times are of one call. Those of tasks are what tuning measured, with data where the call before left them, or with cold caches where the machine says so.',
      data.models.length > 0 ? 'Steps of a model were timed by themselves for this report: the shortest of repeated runs of all steps in turn.' : '',
      'The roof is the least time that the machine needs for the arithmetic, or for moving each byte of inputs and outputs once, whichever is longer. Data move at the bandwidth that was measured for data of their size. It bounds no kernel exactly: operations on padding count, and a busy machine is measured slower than it is, so more than 100 % is possible.',
      data.tasks.length > 0 ? 'The zero-trial kernel is the first trial: what the draft model chooses before anything is measured, or what a strategy without that model draws first.' : '',
      'GFLOP/s count every addition, multiplication, comparison and function as one operation.',
      thinned ? 'Of tasks with many trials, evenly chosen trials are drawn as dots. Curves, counts and decisions are of all trials.' : '',
      data.damaged > 0 ? `${data.damaged} damaged rows of the databases were left out.` : '',
    ].filter(Boolean).map(text => el('li', {}, text))));
}

function build() {
  const page = document.getElementById('page'), failures = allFailures(), roofs = roofCards();
  about();
  schemeButton();
  add(page, [
    data.tasks.length + data.models.length === 0 ? el('p', {class: 'card'}, 'The databases hold no records yet; `tracewright tune` stores some.') : null,
    data.models.length > 0 ? section('Models', data.models.map(modelCard)) : null,
    data.tasks.length > 0 ? section('Tasks', taskTable()) : null,
    roofs.length > 0 ? section('Rooflines', roofs) : null,
    data.tasks.length > 0 ? section('Tuning', data.tasks.map(taskCard)) : null,
    failures.length > 0 ? section('Failures', el('div', {class: 'card'}, failureTable(failures, 'Failed trials of all tasks', true))) : null,
    notes(),
  ]);
}

build();
