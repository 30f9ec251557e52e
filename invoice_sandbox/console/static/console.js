"use strict";

// Copy buttons are there for those whose browser can copy.
const prepare = () => {
  document.querySelectorAll("button.close").forEach((one) => (one.hidden = false));
  if (navigator.clipboard) {
    document.querySelectorAll("button.copy").forEach((button) => (button.hidden = false));
  }
};
document.addEventListener("click", (event) => {
  if (!event.target.matches("button.copy")) return;
  const button = event.target;
  navigator.clipboard.writeText(button.previousElementSibling.textContent).then(() => {
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
});

// A drawing that is too wide begins with the present state.
const showPresent = () => {
  const now = document.querySelector(".scroll .now rect");
  if (!now) return;
  const box = now.closest(".scroll");
  box.scrollLeft = now.x.baseVal.value + 64 - box.clientWidth / 2;
};

// A page changes in place, and not under the hand: it waits while a pointer is pressed or over a
// list whose rows move, text is selected, or a field has the focus.
const live = () => document.querySelector("#live");
const bar = () => document.querySelector("#bar");
const waiting = () => document.querySelector("#waiting");
let pressed = false;

const isHeld = () => {
  const selection = getSelection();
  const isSelected = !selection.isCollapsed && selection.containsNode(live(), true);
  const field = live().querySelector(":is(input, select, textarea):focus");
  return pressed || isSelected || field !== null || live().querySelector(".calm:hover") !== null;
};
const change = () => {
  waiting().hidden = !isHeld();
  if (waiting().hidden) htmx.trigger(live(), "changed");
};
const changeBar = () => {
  if (isHeld()) waiting().hidden = false;
  else if (bar()) htmx.trigger(bar(), "changed");
};
const resume = () => {
  if (!waiting().hidden) change();
};
const release = () => setTimeout(() => ((pressed = false), resume())); // after the click
document.addEventListener("pointerdown", () => (pressed = true), true);
for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, release, true);
for (const name of ["selectionchange", "focusout", "pointerout"]) {
  document.addEventListener(name, () => setTimeout(resume));
}
document.addEventListener("click", (event) => {
  if (event.target !== waiting()) return;
  getSelection().removeAllRanges();
  waiting().hidden = true;
  htmx.trigger(live(), "changed");
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const isOurs = [live(), bar()].includes(event.detail.target);
  if (!isOurs || !event.detail.shouldSwap || !isHeld()) return;
  event.detail.shouldSwap = false;
  waiting().hidden = false;
});

// What a visitor has opened, chosen or typed stays.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) =>
  !["open", "checked", "selected"].includes(name) &&
  (name !== "value" || element.value === element.defaultValue);

// The stream of a page reports only what the page shows, which may come to be more.
let stream, topics;
const listen = () => {
  const address = live()?.dataset.events;
  const wanted = address?.split("topics=")[1];
  if (!address || wanted === topics) return;
  stream?.close();
  topics = wanted;
  stream = new EventSource(address);
  stream.addEventListener("change", change);
  stream.addEventListener("bar", changeBar);
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => ((topics = null), listen()), 5000);
  });
};

// Keys open what a link names, such as the next request: j, k, e.
document.addEventListener("keydown", (event) => {
  const isTyped = event.target.matches("input, select, textarea");
  if (isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
  [...document.querySelectorAll("a[data-key]")].find((link) => link.dataset.key === event.key)?.click();
});

document.addEventListener("DOMContentLoaded", () => {
  prepare();
  showPresent();
  document.querySelector(".list .chosen")?.scrollIntoView({ block: "center" });
  listen();
});
document.addEventListener("htmx:afterSettle", () => {
  prepare();
  listen();
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
    document.querySelector("#result [role=alertdialog] button")?.focus();
  });
});
document.addEventListener("click", (event) => {
  if (event.target.closest('[aria-disabled="true"]')) event.preventDefault();
  if (!event.target.matches("#result .close")) return;
  event.preventDefault();
  event.target.closest(".effect").remove();
});
