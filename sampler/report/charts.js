// Charts as SVG, drawn at the width that their place has. Text comes in as text nodes only.

function add(parent, children) {
  for (const child of children.flat(9)) {
    if (child !== null && child !== undefined && child !== '') parent.append(child);
  }
  return parent;
}

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  return add(made, children);
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  return add(made, children);
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return '–';
  if (value === 0) return '0';
  if (value >= 1000) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(digits)));
}

function time(us) {
  if (us === null || us === undefined) return '–';
  if (us < 1) return number(us * 1000) + ' ns';
  if (us < 1000) return number(us) + ' us';
  return us < 1e6 ? number(us / 1e3) + ' ms' : number(us / 1e6) + ' s';
}

function percent(part) {
  if (part === null || part === undefined) return '–';
  return part >= 0.1 || part === 0 ? Math.round(part * 100) + ' %' : (part * 100).toFixed(1) + ' %';
}

function bytesText(bytes) {
  if (bytes === null) return '–';
  if (bytes < 1024) return number(bytes) + ' B';
  return bytes < 1048576 ? number(bytes / 1024) + ' KiB' : number(bytes / 1048576) + ' MiB';
}

// A scale from values to pixels: linear, or logarithmic.
function scale(low, high, from, to, isLog) {
  const f = isLog ? Math.log10 : x => x;
  const a = f(low), b = f(high) > f(low) ? f(high) : f(low) + 1;
  return value => from + (f(value) - a) / (b - a) * (to - from);
}

function logTicks(low, high, most) {
  if (high / low < 4) return linearTicks(low, high, most);
  for (const digits of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
      for (const digit of digits) {
        const tick = digit * 10 ** power;
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(Number(tick.toPrecision(6)));
      }
    }
    if (ticks.length <= most) return ticks;
    if (digits.length === 1) return ticks.filter((_, i) => i % Math.ceil(ticks.length / most) === 0);
  }
}

function linearTicks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(x => x * power).find(x => x >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step); tick * step <= high; ++tick) ticks.push(Number((tick * step).toPrecision(6)));
  return ticks;
}

// A place for a chart: `draw(width)` gives the SVG and what pointing at a position shows.
function chart(draw) {
  const place = el('div', {class: 'chart'});
  const said = el('p', {class: 'said', 'aria-live': 'polite'});
  let width = 0;
  const redraw = () => {
    const now = Math.floor(place.clientWidth);
    if (now === width || now < 50) return;
    width = now;
    const drawn = draw(width);
    place.replaceChildren(drawn.picture);
    said.textContent = drawn.hint || '';
    if (drawn.points) makePointable(drawn, said);
  };
  new ResizeObserver(redraw).observe(place);
  requestAnimationFrame(redraw);
  return el('div', {}, place, said);
}

// Hover, tap and arrow keys choose the nearest of drawn.points: {x, y, text, mark}.
function makePointable(drawn, said) {
  const {picture, points} = drawn;
  let at = -1;
  const mark = svg('g', {});
  picture.append(mark);
  const choose = index => {
    at = Math.max(0, Math.min(points.length - 1, index));
    const point = points[at];
    mark.replaceChildren(point.mark ? point.mark() : svg('circle', {class: 'pointed', cx: point.x, cy: point.y, r: 7}));
    said.textContent = point.text;
  };
  const nearest = event => {
    const box = picture.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = 0, least = Infinity;
    points.forEach((point, index) => {
      const distance = point.distance ? point.distance(x, y) : Math.hypot(point.x - x, point.y - y);
      if (distance < least) least = distance, best = index;
    });
    choose(best);
  };
  picture.addEventListener('pointermove', nearest);
  picture.addEventListener('pointerdown', nearest);
  picture.setAttribute('tabindex', '0');
  picture.addEventListener('keydown', event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (step && points.length > 0) choose(at + step), event.preventDefault();
  });
}

// An SVG that says what it is to those who do not see it.
let pictures = 0;
function picture(width, height, title, description) {
  const id = 'picture' + pictures++;
  return svg('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-labelledby': `${id}t ${id}d`},
             svg('title', {id: id + 't'}, title), svg('desc', {id: id + 'd'}, description));
}

function axes(out, box, x, y, xTicks, yTicks, xText, yText) {
  for (const tick of yTicks) {
    out.append(svg('line', {class: 'grid', x1: box.left, x2: box.right, y1: y(tick), y2: y(tick)}),
               svg('text', {x: box.left - 6, y: y(tick) + 4, 'text-anchor': 'end'}, yText(tick)));
  }
  for (const tick of xTicks)
    out.append(svg('text', {x: x(tick), y: box.bottom + 16, 'text-anchor': 'middle'}, xText(tick)));
  out.append(svg('line', {class: 'axis', x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom}));
}

function diamond(x, y, r, name) {
  return svg('path', {class: name, d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z`});
}

// Slower trials are drawn at the upper edge.
const kSlowest = 8;

// Best time so far against trials; each trial a dot.
function curveChart(task) {
  return chart(width => {
    const height = Math.round(Math.max(190, Math.min(300, width * 0.45)));
    const box = {left: 58, right: width - 14, top: 22, bottom: height - 36};
    const times = task.dots.map(dot => dot[1]);
    const hasUntuned = task.untuned_us !== null && task.untuned_us <= kSlowest * task.best_us;
    const hasBound = task.bound_us !== null && task.bound_us >= task.best_us / kSlowest;
    const all = times.concat(task.best_us, hasUntuned ? task.untuned_us : [], hasBound ? task.bound_us : []);
    const low = Math.min(...all) * 0.93, high = Math.min(Math.max(...all), kSlowest * task.best_us) * 1.07;
    const x = scale(1, Math.max(2, task.trials), box.left, box.right);
    const exact = scale(low, high, box.bottom, box.top, true), y = us => Math.max(box.top, exact(us));
    const out = picture(width, height, `Tuning curve of ${task.name}`,
      `Best time so far against trials: ${time(task.curve[0][1])} at first, ${time(task.best_us)} after trial ` +
      `${task.best_trial} of ${task.trials}.`);
    const ticks = linearTicks(0, task.trials, Math.min(task.trials, width < 500 ? 4 : 8)).map(tick => Math.max(1, tick));
    axes(out, box, x, y, ticks, logTicks(low, high, 6), String, time);
    out.append(svg('text', {x: 4, y: 12}, 'time of a call, logarithmic'),
               svg('text', {x: box.right, y: height - 4, 'text-anchor': 'end'}, 'trials'));
    const level = (us, name) =>
      out.append(svg('line', {class: name, x1: box.left, x2: box.right, y1: y(us), y2: y(us)}));
    if (hasUntuned) level(task.untuned_us, 'untuned');
    if (hasBound) level(task.bound_us, 'bound');
    out.append(svg('path', {class: 'dots', d: task.dots.map(dot => `M${x(dot[0]).toFixed(1)} ${y(dot[1]).toFixed(1)}h0`).join('')}));
    const steps = task.curve.map(([trial, us], i) => (i ? 'H' : 'M') + x(trial).toFixed(1) + (i ? 'V' : ' ') + y(us).toFixed(1));
    out.append(svg('path', {class: 'curve', d: steps.join('') + 'H' + box.right}));
    if (task.zero_trial_us !== null) out.append(diamond(x(1), y(task.zero_trial_us), task.best_trial === 1 ? 10 : 6, 'first'));
    out.append(svg('circle', {class: 'best', cx: x(task.best_trial), cy: y(task.best_us), r: 5.5}));
    const points = task.dots.map(([trial, us, record]) => (
      {x: x(trial), y: y(us), text: `trial ${trial}: ${time(us)} (record ${record})`}));
    return {picture: out, points, hint: 'Point at a dot, or use the arrow keys, to see a trial.'};
  });
}

// The shapes of a chart again, for its legend.
function sample(...shapes) {
  return svg('svg', {viewBox: '0 0 24 14', 'aria-hidden': 'true'}, ...shapes);
}
function sampleLine(name) {
  return sample(svg('line', {class: name, x1: 1, x2: 23, y1: 7, y2: 7}));
}
function entry(shape, text) {
  return el('li', {}, shape, text);
}

function curveLegend(task) {
  return el('ul', {class: 'legend'},
    entry(sampleLine('curve'), 'best so far'),
    entry(sample(svg('path', {class: 'dots', d: 'M12 7h0'})),
          task.dots.length < task.timed ? `a trial (${number(task.dots.length)} of ${number(task.timed)} are drawn)` : 'a trial'),
    task.dots.some(dot => dot[1] > kSlowest * task.best_us * 1.07) ? entry('', `at the upper edge: slower than ${time(kSlowest * task.best_us * 1.07)}`) : null,
    task.zero_trial_us !== null ? entry(sample(diamond(12, 7, 5, 'first')), `zero-trial kernel: ${time(task.zero_trial_us)}`) : null,
    entry(sample(svg('circle', {class: 'best', cx: 12, cy: 7, r: 5})), `best: ${time(task.best_us)}`),
    task.bound_us !== null ? entry(sampleLine('bound'), `roof: ${time(task.bound_us)}`) : null,
    task.untuned_us !== null ? entry(sampleLine('untuned'), `untuned: ${time(task.untuned_us)}`) : null);
}

// A label at (x, y) that keeps inside of the picture and away from others; `taken` remembers what was placed.
function placeLabel(taken, x, y, text, box) {
  const width = text.length * 6 + 4;
  for (const [dx, dy, anchor] of [[9, 4, 'start'], [-9, 4, 'end'], [0, -11, 'middle'], [0, 19, 'middle']]) {
    const left = x + dx - (anchor === 'end' ? width : anchor === 'middle' ? width / 2 : 0), top = y + dy - 11;
    const rectangle = [left, top, left + width, top + 13];
    const isFree = !taken.some(one => one[0] < rectangle[2] && one[2] > rectangle[0] && one[1] < rectangle[3] && one[3] > rectangle[1]);
    if (!isFree || left < box.left || rectangle[2] > box.right || top < box.top) continue;
    taken.push(rectangle);
    return svg('text', {x: x + dx, y: y + dy, 'text-anchor': anchor}, text);
  }
  return null;
}

// Points: {name, intensity, gflops, text, isStep}. A roof: {gflops, levels}.
function roofChart(roof, points) {
  return chart(width => {
    const height = Math.round(Math.max(260, Math.min(420, width * 0.55)));
    const box = {left: 52, right: width - 14, top: 22, bottom: height - 36};
    const peaks = [roof.gflops, roof.half_gflops].filter(peak => peak !== null);
    const intensities = points.map(point => point.intensity), rates = points.map(point => point.gflops);
    const ridges = roof.levels.flatMap(level => peaks.map(peak => peak / level.gb_per_second));
    const xLow = Math.min(...intensities, ...ridges) / 2, xHigh = Math.max(...intensities, ...ridges) * 2;
    const yLow = Math.min(...rates, ...peaks) / 2, yHigh = Math.max(...rates, ...peaks) * 1.6;
    const x = scale(xLow, xHigh, box.left, box.right, true), y = scale(yLow, yHigh, box.bottom, box.top, true);
    const out = picture(width, height, 'Roofline',
      'Operations a second against operations for each byte, both logarithmic. ' + points.map(point => point.text).join('; '));
    axes(out, box, x, y, logTicks(xLow, xHigh, width < 500 ? 5 : 9), logTicks(yLow, yHigh, 7), tick => number(tick), tick => number(tick));
    out.append(svg('text', {x: 4, y: 12}, 'GFLOP/s'),
               svg('text', {x: box.right, y: height - 4, 'text-anchor': 'end'}, 'operations for each byte'));
    const taken = [];
    const top = Math.max(...peaks, 0) || yHigh;
    const fastest = Math.max(...roof.levels.map(level => level.gb_per_second), 1e-9);
    for (const peak of peaks) {
      const left = x(Math.max(xLow, peak / fastest));
      out.append(svg('line', {class: 'roof', x1: left, x2: box.right, y1: y(peak), y2: y(peak)}),
                 svg('text', {class: 'strong', x: left + 2, y: y(peak) - 6}, `${number(peak)} GFLOP/s`));
      taken.push([left, y(peak) - 18, left + 90, y(peak)], [box.left, y(peak) - 1, box.right, y(peak) + 1]);
    }
    roof.levels.forEach((level, i) => {
      const from = Math.max(xLow, yLow / level.gb_per_second), to = Math.min(xHigh, top / level.gb_per_second);
      if (from >= to) return;
      const name = `${level.name}, ${number(level.gb_per_second)} GB/s`;
      out.append(svg('line', {class: `slope s${i % 4}`, x1: x(from), x2: x(to), y1: y(from * level.gb_per_second), y2: y(to * level.gb_per_second)},
                     svg('title', {}, name)));
    });
    const pointed = points.map(point => ({x: x(point.intensity), y: y(point.gflops), text: point.text}));
    for (const point of pointed) taken.push([point.x - 6, point.y - 6, point.x + 6, point.y + 6]);
    points.forEach((point, i) => {
      const {x: px, y: py} = pointed[i];
      out.append(point.isStep ? svg('rect', {class: 'kernel step', x: px - 4, y: py - 4, width: 8, height: 8})
                              : svg('circle', {class: 'kernel', cx: px, cy: py, r: 4.5}));
      const label = point.name.length <= 28 && points.length <= 40 ? placeLabel(taken, px, py, point.name, box) : null;
      if (label) out.append(label);
    });
    return {picture: out, points: pointed, hint: 'Point at a kernel, or use the arrow keys.'};
  });
}

function roofLegend(roof, points) {
  return el('ul', {class: 'legend'},
    points.some(point => !point.isStep) ? entry(sample(svg('circle', {class: 'kernel', cx: 12, cy: 7, r: 4.5})), 'best kernel of a task') : null,
    points.some(point => point.isStep) ? entry(sample(svg('rect', {class: 'kernel step', x: 8, y: 3, width: 8, height: 8})), 'kernel of a model') : null,
    roof.gflops !== null ? entry(sampleLine('roof'), 'arithmetic') : null,
    roof.levels.map((level, i) => entry(sampleLine(`slope s${i % 4}`),
      `${i === 0 ? 'smaller data' : level.name === 'memory' ? 'memory' : 'from ' + level.name}: ${number(level.gb_per_second)} GB/s`)));
}

// Steps in order, each as wide as its share of the time. `rank` gives the number of a kernel.
function timelineChart(model, rank) {
  return chart(width => {
    const height = 76, top = 4, bar = 44;
    const out = picture(width, height, `Timeline of ${model.name}`,
      `${model.steps.length} steps in ${time(model.us)}. The table below has their kernels.`);
    const points = [];
    let begin = 0;
    for (const step of model.steps) {
      const left = begin * width, wide = Math.max(step.share * width, 0.5), kernel = rank.get(step.kernel);
      begin += step.share;
      out.append(svg('rect', {class: `segment c${kernel <= 6 ? kernel : 0}`, x: left, y: top, width: wide, height: bar}));
      if (wide > 8 * String(kernel).length + 5)
        out.append(svg('text', {class: 'on', x: left + wide / 2, y: top + bar / 2 + 4, 'text-anchor': 'middle'}, kernel));
      const middle = left + wide / 2;
      points.push({text: `${kernel}: ${step.kernel} (${step.name}), ${time(step.us)}, ${percent(step.share)}, ` +
                     `${number(step.gflops)} GFLOP/s, ${percent(step.share_of_roof)} of the roof`,
                   distance: px => px >= left && px < left + wide ? 0 : Math.abs(px - middle),
                   mark: () => svg('rect', {class: 'pointed', x: left, y: top - 2, width: wide, height: bar + 4})});
    }
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      out.append(svg('line', {class: 'axis', x1: part * (width - 1) + 0.5, x2: part * (width - 1) + 0.5, y1: top + bar, y2: top + bar + 6}),
                 svg('text', {x: part * width, y: height - 8, 'text-anchor': part === 0 ? 'start' : part === 1 ? 'end' : 'middle'},
                     part === 0 ? '0' : time(part * model.us)));
    }
    return {picture: out, points, hint: 'Point at a step, or use the arrow keys.'};
  });
}
