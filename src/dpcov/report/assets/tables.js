// Tables that readers sort by a heading, filter by a word, and take away as CSV.
(() => {
  const text = (cell) => cell.textContent.trim();
  const value = (cell) => {
    // A number with its error sorts by the number.
    const [first, second] = text(cell).replaceAll(/[,%]/g, "").replaceAll("−", "-").split("±");
    const number = Number(first || second || NaN);
    return Number.isNaN(number) ? null : number;
  };
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x !== null && y !== null) return x - y;
    return x === y ? text(a).localeCompare(text(b)) : (x === null) - (y === null);
  };
  const quoted = (cell) => `"${text(cell).replaceAll('"', '""')}"`;

  for (const box of document.querySelectorAll(".sortable")) {
    const body = box.querySelector("tbody");
    const rows = [...body.rows];
    const tools = Object.assign(document.createElement("div"), { className: "tools" });
    const filter = Object.assign(document.createElement("input"), { type: "search", placeholder: "Filter" });
    filter.setAttribute("aria-label", "Show rows that contain this text");
    filter.addEventListener("input", () => {
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(filter.value.toLowerCase());
    });
    const save = Object.assign(document.createElement("button"), { type: "button", textContent: "CSV" });
    save.setAttribute("aria-label", "Save this table as a CSV file");
    save.addEventListener("click", () => {
      const lines = [...box.querySelectorAll("tr")].map((row) => [...row.cells].map(quoted).join(","));
      const address = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "text/csv" }));
      Object.assign(document.createElement("a"), { href: address, download: "columns.csv" }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    });
    tools.append(filter, save);
    box.prepend(tools);
    [...box.querySelectorAll("thead th")].forEach((heading, place) => {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "sort" });
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") !== "ascending";
        for (const other of box.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        body.append(...rows.toSorted((a, b) => (up ? 1 : -1) * compare(a.cells[place], b.cells[place])));
      });
    });
  }
})();
