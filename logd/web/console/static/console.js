// Live updates and charts. Without this script the pages are the same, as of the moment of loading.
"use strict";
(() => {
  const live = document.getElementById("live");
  const state = document.getElementById("state");
  const pause = document.getElementById("pause");
  let source = null;
  let charts = [];

  const say = (text) => {
    if (state) { state.textContent = text; state.hidden = !text; }
  };

  // A person who types, has a form open, or has selected text keeps what is there.
  const busy = () => {
    const at = document.activeElement;
    const typing = at && live.contains(at) && ["INPUT", "SELECT", "TEXTAREA"].includes(at.tagName);
    const selected = String(getSelection()).length > 0;
    return typing || selected || live.querySelector("details[open]") !== null;
  };

  const show = (html) => {
    if (busy()) return;
    const focused = document.activeElement;
    const links = focused && live.contains(focused) ? [...live.querySelectorAll("a, button, [tabindex]")] : [];
    const place = links.indexOf(focused);
    const scrolled = [...live.querySelectorAll(".wide")].map((each) => each.scrollLeft);
    const parsed = new DOMParser().parseFromString(html, "text/html");
    const kept = live.querySelector(".charts");
    const fresh = parsed.querySelector(".charts");
    if (kept && fresh) fresh.replaceWith(document.adoptNode(kept));
    live.replaceChildren(...[...parsed.body.childNodes].map((each) => document.adoptNode(each)));
    [...live.querySelectorAll(".wide")].forEach((each, number) => { each.scrollLeft = scrolled[number] || 0; });
    if (place >= 0) {
      const there = live.querySelectorAll("a, button, [tabindex]")[place];
      if (there) there.focus({ preventScroll: true });
    }
  };

  const begin = () => {
    source = new EventSource(live.dataset.stream);
    source.addEventListener("open", () => say(""));
    source.addEventListener("live", (event) => show(event.data));
    source.addEventListener("error", () => say("not connected; what you see may be old"));
  };
  const end = () => { if (source) { source.close(); source = null; } };

  if (live && live.dataset.stream) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      const paused = source !== null;
      if (paused) end(); else begin();
      pause.setAttribute("aria-pressed", String(paused));
      say(paused ? "paused" : "");
    });
    // A page that nobody looks at asks for nothing.
    document.addEventListener("visibilitychange", () => {
      if (pause.getAttribute("aria-pressed") === "true") return;
      if (document.hidden) end(); else if (!source) begin();
    });
    if (!document.hidden) begin();
  }

  // Charts

  const units = {
    bytes: (value) => {
      if (value === null || value === undefined) return "–";
      let name = "B";
      for (const next of ["KB", "MB", "GB", "TB"]) {
        if (Math.abs(value) < 1000) break;
        value /= 1000;
        name = next;
      }
      return `${value >= 100 || name === "B" ? value.toFixed(0) : value.toFixed(1)} ${name}`;
    },
    count: (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString()),
  };
  const colours = ["#2a9d80", "#d08c2b"];
  // Whole steps, so that no two marks of an axis have the same text.
  const steps = [...Array(16).keys()].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));
  // Times in UTC, as on all pages: the step in seconds, the text of a mark, and what is added where the day changes.
  const day = "\n{YYYY}-{MM}-{DD}";
  const times = [
    [86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
    [60, "{HH}:{mm}", day, null, day, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", day, null, day, null, null, null, 1],
  ];

  const draw = (holder, data) => {
    const style = getComputedStyle(document.documentElement);
    const axis = { stroke: style.getPropertyValue("--soft"), grid: { stroke: style.getPropertyValue("--line"), width: 1 } };
    for (const figure of holder.querySelectorAll("figure")) {
      const names = figure.dataset.series.split(" ");
      const text = units[figure.dataset.unit];
      const chart = new uPlot({
        width: Math.max(figure.clientWidth - 26, 200),
        height: 170,
        cursor: { drag: { x: true, y: false } },
        legend: { live: true },
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
        axes: [
          { ...axis, values: times, space: 90 },
          { ...axis, size: 70, incrs: steps, values: (_, ticks) => ticks.map(text) },
        ],
        series: [
          { label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
          ...names.map((name, number) => ({
            label: name.replaceAll("_", " "),
            stroke: colours[number],
            width: 2,
            points: { show: false },
            value: (_, value) => text(value),
          })),
        ],
      }, [data.times, ...names.map((name) => data[name])], figure);
      charts.push({ chart, names, figure });
    }
  };

  const holder = document.querySelector(".charts");
  if (holder && window.uPlot) {
    let known = null;
    const fetchHistory = async () => {
      const since = known && known.times.length ? Math.floor(known.times[known.times.length - 1]) : 0;
      const answer = await fetch(`${holder.dataset.history}?since=${since}`);
      if (!answer.ok) return;
      const more = await answer.json();
      if (!known) {
        known = more;
        draw(holder, known);
        return;
      }
      const last = known.times[known.times.length - 1] || 0;
      const from = more.times.findIndex((time) => time > last);
      if (from < 0) return;
      for (const name of Object.keys(known)) known[name] = known[name].concat(more[name].slice(from)).slice(-4320);
      for (const { chart, names } of charts) chart.setData([known.times, ...names.map((name) => known[name])]);
    };
    const again = () => { if (!document.hidden) fetchHistory().catch(() => {}); };
    again();
    setInterval(again, 5000);
    addEventListener("resize", () => {
      for (const { chart, figure } of charts) chart.setSize({ width: Math.max(figure.clientWidth - 26, 200), height: 170 });
    });
  }
})();
