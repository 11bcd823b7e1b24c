"use strict";
// Comfort on top of pages that work without it: columns that show what their type needs, many filled in
// at once, a slider (plan.js) whose budget is chosen, and news of work that goes on.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const find = (id) => document.getElementById(id);
  const needs = { numeric: ["lower", "upper"], date: ["lower", "upper"], categorical: ["categories"] };
  const takes = { numeric: ["unit", "missing_codes"], date: ["missing_codes"], boolean: ["missing_codes"], categorical: ["missing_codes"] };

  find("problems")?.focus();

  // A page that the browser kept shows what was decided when it was made.
  addEventListener("pageshow", (event) => event.persisted && location.reload());

  const isChanged = (field) => field.type === "radio" || field.type === "checkbox" ? field.checked !== field.defaultChecked
    : field.options ? [...field.options].some((each) => each.selected !== each.defaultSelected) : field.value !== field.defaultValue;
  const typed = (forms) => forms.some((form) => [...form.elements].some((field) => field.name && isChanged(field)));
  let sent = false;
  addEventListener("submit", (event) => {
    const others = all("main form").filter((form) => form !== event.target);
    const lost = typed(others) && !confirm("What is typed in another part of this page is not saved, and will be lost. Go on?");
    // The second press of a double click is none.
    if (sent || lost) event.preventDefault();
    else sent = true;
  });
  addEventListener("beforeunload", (event) => {
    if (!sent && typed(all("main form"))) event.preventDefault();
  });

  const table = find("columns-table");
  if (table) {
    const value = (row, name) => row.querySelector(`[data-field="${name}"]`);
    const refresh = (row) => {
      const kind = value(row, "type").value;
      const wanted = needs[kind] ?? [];
      const shown = [...wanted, ...(takes[kind] ?? [])];
      for (const name of ["lower", "upper", "unit", "categories", "missing_codes"]) value(row, name).hidden = !shown.includes(name);
      const grouped = kind === "categorical" && "groups" in row.dataset;
      const todo = !grouped && wanted.some((name) => value(row, name).value.trim() === "");
      const state = row.querySelector(".todo, .ready");
      state.textContent = todo ? "fill in" : kind === "ignored" ? "not read" : "ready";
      state.className = todo ? "todo" : "ready";
    };
    const rows = all("tbody tr", table);
    rows.forEach(refresh);
    table.addEventListener("input", (event) => refresh(event.target.closest("tr")));

    // Only when asked: a row that is being filled in stays where it is.
    const narrow = () => {
      const text = find("search").value.toLowerCase();
      const wanted = (row) => row.dataset.name.toLowerCase().includes(text) && (!find("unfilled").checked || row.querySelector(".todo"));
      for (const row of rows) row.hidden = !wanted(row);
      find("found").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} columns are shown.`;
    };
    find("search-field").hidden = false;
    find("search").addEventListener("input", narrow);
    find("unfilled").addEventListener("change", narrow);
    narrow();

    find("bulk-fields").hidden = false;
    find("bulk").addEventListener("click", () => {
      const parts = (find("bulk-names").value || "*").split("*");
      const escaped = parts.map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
      const pattern = new RegExp(`^${escaped.join(".*")}$`);
      let count = 0;
      for (const row of rows.filter((each) => !each.hidden && pattern.test(each.dataset.name))) {
        for (const name of ["type", "lower", "upper"]) {
          const typed = find(`bulk-${name}`).value;
          if (typed !== "") value(row, name).value = typed;
        }
        refresh(row);
        count += 1;
      }
      narrow();
      find("told").textContent = `Filled in ${count} of the columns shown. Save to keep it.`;
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
        if (!news.running) {
          if (!find("problems") && !typed(all("main form"))) return location.reload();
          find("progress").textContent = "It has ended. Save what is typed here, or reload the page to see what came of it.";
          return;
        }
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
