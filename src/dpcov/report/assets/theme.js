"use strict";
// Light or dark: the reader's system decides until the button is used. Copy buttons appear where copying works.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colors`);
    button.setAttribute("aria-pressed", String(isDark()));
    document.dispatchEvent(new Event("themechange"));
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  addEventListener("beforeprint", () => { root.dataset.printing = "true"; show(); });
  addEventListener("afterprint", () => { delete root.dataset.printing; show(); });
  show();

  for (const copy of document.querySelectorAll(".copy")) {
    const code = copy.closest(".code").querySelector("code");
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      getSelection().selectAllChildren(code);
      try {
        await navigator.clipboard.writeText(code.textContent);
        copy.textContent = "Copied";
      } catch {
        copy.textContent = "Selected";
      }
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
  }
})();
