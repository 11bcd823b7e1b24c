"use strict";
// Comfort on top of pages that work without it: columns that show what their type needs, many filled in
// at once, a slider (plan.js) whose budget is chosen, and news of work that goes on.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const find = (id) => document.getElementById(id);
  const needs = { numeric: ["lower", "upper"], date: ["lower", "upper"], categorical: ["categories"] };
  const takes = { numeric: ["unit", "missing_codes"], date: ["missing_codes"], boolean: ["missing_codes"], categorical: ["missing_codes"] };

  find("problems")?.focus();

  const table = find("columns-table");
  if (table) {
    const value = (row, name) => row.querySelector(`[data-field="${name}"]`);
    const refresh = (row) => {
      const kind = value(row, "type").value;
      const wanted = needs[kind] ?? [];
      const shown = [...wanted, ...(takes[kind] ?? [])];
      for (const name of ["lower", "upper", "unit", "categories", "missing_codes"]) value(row, name).hidden = !shown.includes(name);
      const todo = wanted.some((name) => value(row, name).value.trim() === "");
      const state = row.querySelector(".todo, .ready");
      state.textContent = todo ? "fill in" : kind === "ignored" ? "not read" : "ready";
      state.className = todo ? "todo" : "ready";
    };
    const rows = all("tbody tr", table);
    rows.forEach(refresh);
    table.addEventListener("input", (event) => refresh(event.target.closest("tr")));

    find("search-field").hidden = false;
    find("search").addEventListener("input", (event) => {
      const text = event.target.value.toLowerCase();
      for (const row of rows) row.hidden = !row.dataset.name.toLowerCase().includes(text);
    });

    find("bulk-fields").hidden = false;
    find("bulk").addEventListener("click", () => {
      const parts = (find("bulk-names").value || "*").split("*");
      const escaped = parts.map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
      const pattern = new RegExp(`^${escaped.join(".*")}$`);
      let count = 0;
      for (const row of rows.filter((each) => pattern.test(each.dataset.name))) {
        for (const name of ["type", "lower", "upper"]) {
          const typed = find(`bulk-${name}`).value;
          if (typed !== "") value(row, name).value = typed;
        }
        refresh(row);
        count += 1;
      }
      find("told").textContent = `Filled in ${count} columns. Save to keep it.`;
    });
  }

  const data = find("plan-data");
  if (data) {
    const { stops } = JSON.parse(data.textContent);
    find("budget").addEventListener("input", (event) => {
      find("chosen").value = stops[event.target.valueAsNumber].text;
    });
  }

  const waiting = find("waiting");
  if (waiting) {
    const bar = waiting.querySelector("progress");
    const ask = async () => {
      try {
        const news = await (await fetch(waiting.dataset.news)).json();
        if (!news.running) return location.reload();
        find("progress").textContent = news.told;
        if (news.total) Object.assign(bar, { max: news.total, value: news.done });
      } catch {
        find("progress").textContent = "The desk does not answer. Was it stopped?";
      }
      setTimeout(ask, 500);
    };
    setTimeout(ask, 300);
  }
})();
