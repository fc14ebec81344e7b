"use strict";
// Fold all metrics of a workload but one, and give each a button.
for (const group of document.querySelectorAll(".group")) {
  const metrics = [...group.querySelectorAll(".metric")];
  if (metrics.length < 2) continue;
  const bar = document.createElement("div");
  bar.className = "chooser";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Metric shown");
  const buttons = metrics.map((metric) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = metric.dataset.name;
    if (metric.dataset.primary) button.className = "primary";
    button.addEventListener("click", () => show(metric));
    bar.append(button);
    return button;
  });
  const show = (chosen) => metrics.forEach((metric, i) => {
    metric.classList.toggle("folded", metric !== chosen);
    buttons[i].setAttribute("aria-pressed", String(metric === chosen));
  });
  metrics[0].before(bar);
  show(metrics[0]);
}
// A button that copies a command.
for (const pre of document.querySelectorAll("pre.command")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.querySelector("code").textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Press Ctrl+C";
      getSelection().selectAllChildren(pre.querySelector("code"));
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  pre.append(button);
}
