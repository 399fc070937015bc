// A page without charts: its theme and its tables.
"use strict";

(() => {
  dlrmsim.theme.start();
  dlrmsim.tables.start();
  document.body.dataset.ready = "yes";
})();
