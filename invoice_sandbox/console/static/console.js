"use strict";

// Copy buttons are there for those whose browser can copy.
// A drawing that is too wide shows the present state.
const prepare = () => {
  document.querySelectorAll("button.close").forEach((one) => (one.hidden = false));
  if (navigator.clipboard) {
    document.querySelectorAll("button.copy").forEach((one) => (one.hidden = false));
  }
  const now = document.querySelector(".scroll .now rect");
  if (now) {
    const box = now.closest(".scroll");
    box.scrollLeft = now.x.baseVal.value + 64 - box.clientWidth / 2;
  }
};
document.addEventListener("DOMContentLoaded", prepare);
document.addEventListener("htmx:afterSettle", prepare);
document.addEventListener("click", (event) => {
  if (!event.target.matches("button.copy")) return;
  const button = event.target;
  navigator.clipboard.writeText(button.previousElementSibling.textContent).then(() => {
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
});

// What was open stays open when a part of the page is replaced, and what had the focus has it.
document.addEventListener("htmx:beforeSwap", (event) => {
  const active = document.activeElement;
  const focused = event.detail.target.contains(active) ? active.outerHTML : "";
  const open = [...event.detail.target.querySelectorAll("details")].map((one) => one.open);
  document.addEventListener("htmx:afterSettle", () => {
    document.querySelectorAll("#live details").forEach((one, index) => {
      if (index < open.length) one.open = open[index];
    });
    const all = document.querySelectorAll("#live :is(a, button, input, select, summary, [tabindex])");
    if (focused) [...all].find((one) => one.outerHTML === focused)?.focus({ preventScroll: true });
  }, { once: true });
});

// An action shows its effect above the page, which stays as it is. Without JavaScript, or on a
// browser that cannot load htmx, the form is sent as any other and leads to a page with it.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!window.htmx || !form.matches('form.call[action$="/call"]')) return;
  event.preventDefault();
  const working = document.getElementById("working");
  const started = Date.now();
  const seconds = () => (working.lastElementChild.textContent = `Working, ${Math.round((Date.now() - started) / 1000)} s`);
  const ticking = setInterval(() => { working.hidden = false; seconds(); }, 500);
  const buttons = form.querySelectorAll("button");
  buttons.forEach((one) => one.setAttribute("aria-disabled", "true"));
  htmx.ajax("POST", form.action, { source: form, target: "#result", swap: "innerHTML" }).finally(() => {
    clearInterval(ticking);
    working.hidden = true;
    buttons.forEach((one) => one.removeAttribute("aria-disabled"));
  });
});
document.addEventListener("click", (event) => {
  if (event.target.closest('[aria-disabled="true"]')) event.preventDefault();
  if (event.target.matches("button.close")) event.target.parentElement.remove();
});
