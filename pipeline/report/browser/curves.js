// Draws each curve of the page again, with its values under the pointer and zoom. Without this script, the drawings stay.
(() => {
  "use strict";
  const HEIGHT = { wide: 270, small: 170 };
  const FONT = '11px system-ui, -apple-system, "Segoe UI", sans-serif';
  const LETTER = 6.4;
  const charts = [];
  const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const element = (tag, kind, words = "") => {
    const made = document.createElement(tag);
    made.className = kind;
    made.textContent = words;
    return made;
  };

  // Four digits, as the page prints a loss.
  const digits = (value) => {
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e6) {
      return String(value).replace("-", "\u2212").replace(/\B(?=(\d{3})+$)/g, "\u202f");
    }
    const short = size < 1e-3 || size >= 1e6 ? value.toExponential(3).replace(/\.?0+e\+?/, "e") : String(Number(value.toPrecision(4)));
    return short.replaceAll("-", "\u2212");
  };

  // The limits of chart_data.py. uPlot adds axis marks one by one, and would never end if a sum equalled its summand.
  const isDrawable = ({ steps, lines }) =>
    steps.every((step) => Number.isInteger(step) && Math.abs(step) <= 1e15) &&
    lines.flatMap((line) => [...line.values, ...(line.means ?? [])]).every((value) => {
      const size = Math.abs(value ?? 0);
      return size === 0 || (size >= 1e-100 && size <= 1e100);
    });
  const WHOLE = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((factor) => Number(`${factor}e${power}`))).flat();

  // The marks of a logarithmic axis: the powers of the base, and of 10 also their multiples.
  const logarithmic = (base) => (plot, axis, least, most) => {
    const log = base === 2 ? Math.log2 : Math.log10;
    const marks = [];
    if (!(least > 0 && most < Infinity)) return marks;
    for (let power = Math.floor(log(least)); power <= Math.ceil(log(most)); power++) {
      if (base === 2) marks.push(2 ** power);
      else for (let factor = 1; factor < 10; factor++) marks.push(Number(`${factor}e${power}`));
    }
    return marks.filter((mark) => mark >= least && mark <= most);
  };

  const lastWith = (values) => values.findLastIndex((value) => value !== null);

  // What is drawn: the values of each line, and its mean on top.
  const seriesOf = (data) => {
    const paths = data.scale === "powers" ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    const few = data.steps.length <= 12;
    return data.lines.flatMap((line) => {
      const stroke = colour(`--c${line.colour}`);
      const top = { stroke, width: 1.8, paths, spanGaps: true, points: { show: few, size: 6, fill: stroke } };
      if (!line.means) return [{ values: line.values, look: top }];
      const faint = { ...top, width: 1, alpha: 0.35, points: { show: few, size: 4, fill: stroke } };
      return [{ values: line.values, look: faint }, { values: line.means, look: { ...top, points: { show: false } } }];
    });
  };

  // The values at an index of `steps`, or the last ones, with the step of a line that ends earlier; of several lines, the means only.
  const describe = (chart, index) => {
    const { data, readout } = chart;
    const end = data.steps.length - 1;
    const shown = data.lines.map((line) => {
      const at = index ?? lastWith(line.values);
      const shown = (values) => (at < 0 || values[at] === null ? "\u2013" : digits(values[at]) + data.suffix);
      const name = line.name && `${line.name} `;
      const words = !line.means ? shown(line.values) : line.name ? shown(line.means) : `${shown(line.values)}  mean ${shown(line.means)}`;
      const early = index === null && at >= 0 && at < end ? ` (step ${digits(data.steps[at])})` : "";
      return element("span", `value c${line.colour}`, name + words + early);
    });
    readout.replaceChildren(element("span", "step", `step ${digits(data.steps[index ?? end])}`), ...shown);
  };

  const zoom = (least, most) => {
    for (const chart of charts) chart.plot.setScale("x", { min: least, max: most });
    document.documentElement.classList.add("zoomed");
  };

  const reset = () => {
    for (const { plot, data } of charts) plot.setScale("x", { min: data.steps[0], max: data.steps.at(-1) });
    document.documentElement.classList.remove("zoomed");
  };

  const drawBroken = (data) => (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--bad")();
    ctx.lineWidth = 1.6 * devicePixelRatio;
    for (const step of data.broken) {
      const x = plot.valToPos(step, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x, bbox.top + bbox.height - 9 * devicePixelRatio);
      ctx.stroke();
    }
    ctx.restore();
  };

  const axes = (data) => {
    const text = { stroke: colour("--faint"), font: FONT, ticks: { show: false } };
    const width = (plot, labels) => 12 + LETTER * Math.max(3, ...(labels ?? []).map((label) => String(label ?? "").length));
    const whole = (plot, splits) => splits.map((split) => (Number.isInteger(split) ? digits(split) : ""));
    // All marks of a linear axis have the same number of decimals, which its increment needs.
    const decimals = (increment) => (String(increment).split(".")[1] ?? "").length;
    const even = (split, increment) => (increment >= 0.001 && increment < 1 && Math.abs(split) < 1e5 ? split.toFixed(decimals(increment)).replace("-", "\u2212") : digits(split));
    const shown = (split, increment) => (data.scale === "linear" ? even(split, increment) : digits(split));
    const values = (plot, splits, axis, space, increment) => splits.map((split) => (split === null ? "" : shown(split, increment) + data.suffix));
    const splits = data.scale === "linear" ? {} : { splits: logarithmic(data.scale === "powers" ? 2 : 10) };
    // Of the marks of a logarithmic axis, only those with a label have a line.
    const labelled = (plot, splits, axis, ...more) => plot.axes[axis].filter(plot, splits, axis, ...more);
    return [
      { ...text, grid: { show: false }, size: 26, gap: 6, space: 64, incrs: WHOLE, values: whole },
      { ...text, grid: { stroke: colour("--rule"), width: 1, filter: labelled }, size: width, gap: 6, space: 34, values, ...splits },
    ];
  };

  const options = (chart, size, looks) => ({
    ...size,
    legend: { show: false },
    padding: [10, 14, 0, 0],
    scales: {
      x: { time: false },
      y: chart.data.scale === "linear" ? {} : { distr: 3, log: chart.data.scale === "powers" ? 2 : 10 },
    },
    axes: axes(chart.data),
    series: [{}, ...looks],
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      sync: { key: "steps", setSeries: false, filters: { pub: (kind) => kind === "mousemove" || kind === "mouseleave" } },
      bind: { dblclick: () => () => (reset(), null) },
      points: { size: 7 },
    },
    hooks: {
      draw: [drawBroken(chart.data)],
      setCursor: [(plot) => describe(chart, plot.cursor.idx)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 4) zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  });

  // A finger that moves sideways reads values; up and down scrolls the page.
  const readByTouch = (plot) => {
    plot.over.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch") return;
      const place = plot.over.getBoundingClientRect();
      plot.setCursor({ left: event.clientX - place.left, top: event.clientY - place.top });
    });
  };

  const readByKeys = (plot, data) => {
    plot.over.tabIndex = 0;
    plot.over.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") reset();
      if (by === undefined) return;
      event.preventDefault();
      const index = Math.min(data.steps.length - 1, Math.max(0, (plot.cursor.idx ?? data.steps.length) + by));
      plot.setCursor({ left: plot.valToPos(data.steps[index], "x"), top: 0 });
    });
  };

  const draw = (figure) => {
    const data = JSON.parse(figure.querySelector("script")?.textContent ?? "null");
    if (!data || !isDrawable(data)) return;
    const series = seriesOf(data);
    const place = element("div", "live");
    const readout = element("output", "readout");
    const chart = { data, readout };
    const whole = element("button", "whole", "whole run");
    whole.type = "button";
    whole.addEventListener("click", reset);
    figure.querySelector("figcaption").append(whole, readout);
    figure.append(place);
    const size = () => ({ width: place.clientWidth, height: figure.classList.contains("wide") ? HEIGHT.wide : HEIGHT.small });
    const looks = series.map((one) => one.look);
    chart.plot = new uPlot(options(chart, size(), looks), [data.steps, ...series.map((one) => one.values)], place);
    charts.push(chart);
    readByTouch(chart.plot);
    readByKeys(chart.plot, data);
    describe(chart, null);
    new ResizeObserver(() => chart.plot.setSize(size())).observe(place);
    figure.classList.add("drawn");
  };

  for (const figure of document.querySelectorAll("figure.curve")) draw(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(({ plot }) => plot.redraw()));
})();
