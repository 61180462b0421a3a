// Applies the chosen theme before the page is painted. A module would run after the first paint.
"use strict";
(() => {
  const KEY = "ragwire.theme";
  const root = document.documentElement;
  const apply = (theme) => (theme === "light" || theme === "dark" ? (root.dataset.theme = theme) : delete root.dataset.theme);
  let theme = "system";
  try {
    theme = localStorage.getItem(KEY) ?? "system";
  } catch {
    // Without access to storage the page follows the system.
  }
  apply(theme);
  addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = root.dataset.theme ?? "system";
    select.addEventListener("change", () => {
      apply(select.value);
      try {
        localStorage.setItem(KEY, select.value);
      } catch {
        // The choice then lasts until the next reload.
      }
    });
  });
})();
