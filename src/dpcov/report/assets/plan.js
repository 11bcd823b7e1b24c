// The slider moves through the budgets that were predicted; the chart of the assumed trace is shown.
(() => {
  const { stops } = JSON.parse(document.getElementById("plan-data").textContent);
  const slider = document.getElementById("budget");
  const bold = (text) => Object.assign(document.createElement("strong"), { textContent: text });
  const code = (text) => Object.assign(document.createElement("code"), { textContent: text });

  const show = () => {
    const stop = stops[slider.valueAsNumber];
    slider.setAttribute("aria-valuetext", stop.text);
    document.getElementById("amount").textContent = stop.text;
    document.getElementById("auto").replaceChildren(
      "With ", code(stop.promise), " auto chooses ", bold(stop.choice), `: ${stop.reason}.`,
    );
    for (const cell of document.querySelectorAll("[data-cell]")) {
      const [trace, mechanism] = cell.dataset.cell.split(",");
      cell.textContent = stop.cells[trace][mechanism];
    }
    for (const marker of document.querySelectorAll(".now")) {
      marker.setAttribute("x1", stop.x);
      marker.setAttribute("x2", stop.x);
    }
  };
  slider.addEventListener("input", show);
  show();

  document.getElementById("trace")?.addEventListener("change", (event) => {
    for (const figure of document.querySelectorAll("[data-trace]")) {
      figure.hidden = figure.dataset.trace !== event.target.value;
    }
  });
})();
