// The slider moves through the budgets that were rehearsed.
(() => {
  const data = document.getElementById("plan-data");
  if (!data) return;
  const { stops } = JSON.parse(data.textContent);
  const slider = document.getElementById("budget");
  const code = (text) => Object.assign(document.createElement("code"), { textContent: text });

  const show = () => {
    const stop = stops[slider.valueAsNumber];
    slider.setAttribute("aria-valuetext", stop.text);
    document.getElementById("amount").textContent = stop.text;
    document.getElementById("told").replaceChildren("With ", code(stop.promise), `: ${stop.headline}`);
    document.getElementById("certainty").textContent = stop.certainty;
    for (const cell of document.querySelectorAll("[data-cell]")) {
      const [column, place] = cell.dataset.cell.split(",");
      cell.textContent = stop.cells[column][place];
    }
    for (const marker of document.querySelectorAll(".now")) {
      marker.setAttribute("x1", stop.x);
      marker.setAttribute("x2", stop.x);
    }
  };
  slider.addEventListener("input", show);
  show();
})();
