"use strict";

// A click on a column's title sorts the table; selects and a search box filter its rows. Text is
// inserted by textContent only, so that nothing in the records can become an element.

(() => {
  document.documentElement.classList.add("js");

  const textOf = (cell) => cell.dataset.value ?? cell.textContent.trim();

  // The minus sign is read as a hyphen; missing numbers are sorted last.
  const numberOf = (cell) => Number.parseFloat(textOf(cell).replace("\u2212", "-"));

  function compare(a, b, numeric) {
    if (!numeric) return textOf(a).localeCompare(textOf(b), "en", { numeric: true });
    return numberOf(a) - numberOf(b);
  }

  function isMissing(cell, numeric) {
    return numeric ? Number.isNaN(numberOf(cell)) : textOf(cell) === "";
  }

  function sortBy(table, header) {
    const place = header.cellIndex;
    const numeric = header.classList.contains("n");
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    const sign = ascending ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((first, second) => {
      const [a, b] = [first.cells[place], second.cells[place]];
      const [noA, noB] = [isMissing(a, numeric), isMissing(b, numeric)];
      return noA || noB ? noA - noB : sign * compare(a, b, numeric);
    });
    table.tBodies[0].append(...rows);
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  }

  function makeLabel(text, control) {
    const label = document.createElement("label");
    label.append(text, control);
    return label;
  }

  function makeSelect(table, header) {
    const rows = [...table.tBodies[0].rows];
    const values = new Set(rows.map((row) => textOf(row.cells[header.cellIndex])));
    if (values.size < 2) return null;
    const select = document.createElement("select");
    select.append(new Option("all", ""));
    for (const value of values) select.append(new Option(value || "(none)", "=" + value));
    select.dataset.place = header.cellIndex;
    return select;
  }

  function addTools(table) {
    const rows = [...table.tBodies[0].rows];
    const tools = document.querySelector(`.tools[data-for="${table.id}"]`);
    if (!tools) return;
    const selects = [];
    for (const header of table.tHead.rows[0].cells) {
      if (!("filter" in header.dataset)) continue;
      const select = makeSelect(table, header);
      if (!select) continue;
      selects.push(select);
      tools.append(makeLabel(header.textContent.trim(), select));
    }
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = "words";
    box.autocomplete = "off";
    tools.append(makeLabel("search", box));
    const count = document.createElement("output");
    tools.append(count);

    function filter() {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const chosen = selects.every((select) => {
          return !select.value || select.value === "=" + textOf(row.cells[select.dataset.place]);
        });
        row.hidden = !(chosen && words.every((word) => text.includes(word)));
        shown += !row.hidden;
      }
      count.textContent = `${shown} of ${rows.length} rows`;
    }

    tools.addEventListener("input", filter);
    tools.addEventListener("change", filter);
    tools.hidden = false;
    filter();
  }

  for (const table of document.querySelectorAll("table.data")) {
    for (const header of table.tHead.rows[0].cells) {
      header.querySelector("button").addEventListener("click", () => sortBy(table, header));
    }
    addTools(table);
  }
})();
