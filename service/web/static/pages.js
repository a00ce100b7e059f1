"use strict";

// Everything works without this file: it counts down, and keeps a second tap from being sent.
const began = performance.now();

function words(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

function countDown() {
  const passed = (performance.now() - began) / 1000;
  for (const time of document.querySelectorAll("time[data-left]")) {
    // What is left is the server's word; the clock of a phone may be wrong.
    time.textContent = words(Math.max(0, Math.ceil(Number(time.dataset.left) - passed)));
  }
}

for (const time of document.querySelectorAll("time[datetime]")) {
  time.title = new Date(time.dateTime).toLocaleString();
}

for (const form of document.querySelectorAll("form")) {
  form.addEventListener("submit", () => {
    for (const button of form.querySelectorAll("button")) button.disabled = true;
  });
}

// A page that a browser shows again from its memory has its buttons back.
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button")) button.disabled = false;
});

if (document.querySelector("time[data-left]")) {
  countDown();
  setInterval(countDown, 1000);
}
