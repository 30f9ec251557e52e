"use strict";

// A click on a block of class "copy" copies its text.
document.addEventListener("click", (event) => {
  const block = event.target.closest("pre.copy");
  if (block && navigator.clipboard && !String(getSelection())) {
    navigator.clipboard.writeText(block.textContent).then(() => {
      block.dataset.copied = "copied";
      setTimeout(() => delete block.dataset.copied, 1500);
    });
  }
});

// What was open stays open when a part of the page is replaced.
document.addEventListener("htmx:beforeSwap", (event) => {
  const open = [...event.detail.target.querySelectorAll("details")].map((one) => one.open);
  document.addEventListener("htmx:afterSettle", () => {
    document.querySelectorAll("#live details").forEach((one, index) => {
      if (open[index]) one.open = true;
    });
  }, { once: true });
});
