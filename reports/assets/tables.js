// Tables: sort by a column, filter rows, mark the section in view in the contents.
"use strict";

dlrmsim.tables = (() => {
  const key = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.value ?? cell.textContent.trim();
    return value !== "" && !Number.isNaN(Number(value)) ? Number(value) : value;
  };

  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));

  function sortBy(table, header) {
    const column = header.cellIndex;
    const falling = header.getAttribute("aria-sort") !== "descending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].sort((a, b) => (falling ? -1 : 1) * compare(key(a, column), key(b, column)));
    table.tBodies[0].append(...rows);
  }

  function startSorting(table) {
    for (const header of table.tHead.rows[0].cells) {
      header.setAttribute("aria-sort", "none");
      header.addEventListener("click", () => sortBy(table, header));
    }
  }

  function startFilter(input) {
    const table = document.getElementById(input.dataset.filters);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }

  function startContents() {
    const links = new Map([...document.querySelectorAll("nav.contents a")].map((a) => [a.hash.slice(1), a]));
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((e) => e.isIntersecting)) {
        links.forEach((link) => link.classList.remove("here"));
        links.get(entry.target.id)?.classList.add("here");
      }
    }, { rootMargin: "-12% 0px -80% 0px" });
    document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
  }

  function start() {
    document.querySelectorAll("table.sortable").forEach(startSorting);
    document.querySelectorAll("input[data-filters]").forEach(startFilter);
    startContents();
  }

  return { start };
})();
