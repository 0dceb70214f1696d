"use strict";
// Puts an interactive chart over each picture once it comes into view. Check boxes show and hide what they name.
(async function () {
  if (typeof DecompressionStream === "undefined") { return; }  // an old browser keeps the pictures

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), function (c) { return c.charCodeAt(0); });
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  const library = document.createElement("script");
  library.textContent = await unpack("plotly");
  document.head.append(library);
  const data = JSON.parse(await unpack("data"));
  const touch = window.matchMedia("(hover: none)").matches;
  const config = { responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"] };
  document.documentElement.classList.add("js");

  function hidden(section) {
    const off = { name: new Set(), source: new Set() };
    section.querySelectorAll(".legend input:not(:checked)").forEach(function (box) {
      off[box.dataset.kind].add(box.value);
    });
    return off;
  }

  function visible(trace, off) {
    return !off.name.has(trace.meta.name) && !off.source.has(trace.meta.source);
  }

  // Plotly labels logarithmic axes too densely: whole decades, or steps of 1, 2 and 5 where there are few of them.
  function tickCount(axis, room) {
    const decades = Math.abs(axis.range[1] - axis.range[0]);
    const step = decades > room / 180 ? 0.85 : 0.5;
    return axis.type !== "log" || decades < 1 ? 6 : Math.round(decades / step);
  }

  function retick(chart) {
    const counts = {};
    ["xaxis", "yaxis"].forEach(function (name) {
      const count = tickCount(chart.layout[name], chart.clientWidth);
      if (count !== chart.layout[name].nticks) { counts[name + ".nticks"] = count; }
    });
    if (Object.keys(counts).length) { Plotly.relayout(chart, counts); }
  }

  function draw(panel) {
    const section = panel.closest(".figure");
    const chart = data[section.id][Number(panel.dataset.panel)];
    const off = hidden(section);
    chart.traces.forEach(function (trace) { trace.visible = visible(trace, off); });
    if (touch) {  // a finger on the chart scrolls the page
      chart.layout.dragmode = false;
      chart.layout.xaxis.fixedrange = chart.layout.yaxis.fixedrange = true;
    }
    chart.layout.xaxis.nticks = tickCount(chart.layout.xaxis, panel.clientWidth);
    chart.layout.yaxis.nticks = tickCount(chart.layout.yaxis, panel.clientWidth);
    Plotly.newPlot(panel.querySelector(".live"), chart.traces, chart.layout, config).then(function (drawn) {
      drawn.on("plotly_relayout", function () { retick(drawn); });
      panel.classList.add("drawn");
    });
  }

  function update(section) {
    const off = hidden(section);
    section.querySelectorAll(".panel.drawn").forEach(function (panel) {
      const chart = data[section.id][Number(panel.dataset.panel)];
      const shown = chart.traces.map(function (trace) { return visible(trace, off); });
      Plotly.restyle(panel.querySelector(".live"), { visible: shown });
    });
  }

  const watcher = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (entry.isIntersecting) {
        watcher.unobserve(entry.target);
        draw(entry.target);
      }
    });
  }, { rootMargin: "600px" });

  document.querySelectorAll(".figure").forEach(function (section) {
    section.querySelectorAll(".panel").forEach(function (panel) {
      watcher.observe(panel);
      const link = panel.querySelector(".save");
      link.href = panel.querySelector(".still").src;
      link.download = section.id + "-" + panel.dataset.panel + ".svg";
    });
    const boxes = section.querySelectorAll(".legend input[data-kind=name]");
    section.querySelectorAll(".legend input").forEach(function (box) {
      box.disabled = false;
      box.addEventListener("change", function () { update(section); });
    });
    section.querySelectorAll(".legend button").forEach(function (button) {
      button.addEventListener("click", function () {
        boxes.forEach(function (box) { box.checked = button.value === "all"; });
        update(section);
      });
    });
  });
})();
