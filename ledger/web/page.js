"use strict";
// The page works without this script, which copies ids, moves between rows by keyboard, and says when there is more to see.
document.addEventListener("click", (event) => {
  const id = event.target.closest("button.id");
  if (!id || !navigator.clipboard) return;
  navigator.clipboard.writeText(id.textContent).then(() => {
    id.classList.add("done");
    setTimeout(() => id.classList.remove("done"), 1500);
  });
});
const rows = [...document.querySelectorAll("ol.rows > li")];
const go = (step) => {
  const here = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[Math.min(rows.length - 1, Math.max(0, here + step))];
  const target = row && row.querySelector("a, button, input");
  if (target) target.focus();
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  if (event.key === "j" || event.key === "k") go(event.key === "j" ? 1 : -1);
  else if (event.key === "/") { const field = document.querySelector("input[type=search]"); if (field) { field.focus(); event.preventDefault(); } }
  else {
    const row = event.key === "u" ? document : document.activeElement.closest("ol.rows > li");
    const button = row && row.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (button) { event.preventDefault(); button.click(); }
  }
});
const fresh = document.getElementById("new");
if (fresh) {
  const look = async () => {
    try {
      const answer = await fetch(fresh.dataset.news);
      if (answer.ok) { const news = await answer.json(); if (news.items.length) { fresh.hidden = false; fresh.querySelector("b").textContent = news.count; } }
    } catch { /* the page was stopped */ }
  };
  setInterval(() => document.hidden || look(), 10000);
}
