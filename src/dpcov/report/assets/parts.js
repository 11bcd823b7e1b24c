// Show one group at a time, and draw the heat maps.
(() => {
  const blocks = [...document.querySelectorAll("[data-part]")];
  const select = document.getElementById("part");
  const show = () => {
    for (const block of blocks) block.hidden = block.dataset.part !== select.value;
  };
  if (select) {
    select.addEventListener("change", show);
    show();
  }
  const { names, maps } = JSON.parse(document.getElementById("map-data").textContent);
  for (const figure of document.querySelectorAll("[data-map]")) {
    new HeatMap(figure, names, maps[figure.dataset.map]);
  }
})();
