"use strict";
// Fold all metrics of a workload but one, and give each a button.
for (const group of document.querySelectorAll(".group")) {
  const metrics = [...group.querySelectorAll(".metric")];
  if (metrics.length < 2) continue;
  const bar = document.createElement("div");
  bar.className = "chooser";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Shown");
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
// What is pointed at is told at once, beside the pointer. The titles that tell
// it move into labels, so that the browser does not tell it a second time.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
for (const title of document.querySelectorAll(".told > title, .flame > svg > title")) {
  title.parentNode.setAttribute("aria-label", title.textContent);
  title.remove();
}
const pointable = ".told, .flame > svg";
const tell = (at, x, y) => {
  tip.hidden = !at;
  if (!at) return;
  tip.textContent = at.getAttribute("aria-label");
  const room = document.documentElement.clientWidth;
  tip.style.left = Math.max(6, Math.min(x + 12, room - tip.offsetWidth - 6)) + scrollX + "px";
  tip.style.top = y + 18 + scrollY + "px";
};
addEventListener("pointermove", (event) => tell(event.target.closest?.(pointable), event.clientX, event.clientY));
addEventListener("pointerdown", (event) => tell(event.target.closest?.(pointable), event.clientX, event.clientY));
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

// A flame graph: a box is enlarged to the whole width by a click or by Enter;
// arrows go from box to box; what is searched for is coloured and summed up.
for (const figure of document.querySelectorAll(".flame-of")) {
  const graph = figure.querySelector("svg.flame");
  if (!graph) continue;
  const height = 18;
  const boxes = [...graph.children].map((el) => ({
    el,
    x: parseFloat(el.getAttribute("x")),
    width: parseFloat(el.getAttribute("width")),
    depth: Math.round(parseFloat(el.getAttribute("y")) / height),
    told: el.getAttribute("aria-label"),
    text: el.querySelector("text"),
  }));
  for (const box of boxes) {
    const cut = box.told.lastIndexOf(": ");
    box.name = cut > 0 ? box.told.slice(0, cut) : box.el.classList.contains("gathered") ? "…" : box.told;
    box.drawn = box.name.replace(/^[^[( ]*\/(?=[^[( ])/, "");
    box.el.setAttribute("role", "button");
    box.el.setAttribute("tabindex", "-1");
  }
  const root = boxes[0];
  let zoomed = root;
  root.el.setAttribute("tabindex", "0");

  // Names are cut to their boxes, and left away where no letter has room.
  const fit = () => {
    const pixels = graph.clientWidth / 100;
    for (const box of boxes) {
      const letters = box.shown ? Math.floor((box.shown * pixels - 7) / 7.1) : 0;
      if (letters < 2) {
        if (box.text) box.text.textContent = "";
        continue;
      }
      if (!box.text) {
        box.text = document.createElementNS("http" + "://www.w3.org/2000/svg", "text");
        box.text.setAttribute("x", "4");
        box.text.setAttribute("y", "13");
        box.el.append(box.text);
      }
      box.text.textContent = box.drawn.length > letters ? box.drawn.slice(0, letters - 1) + "…" : box.drawn;
    }
  };
  const slack = 1e-3;
  const holds = (outer, inner) => outer.depth <= inner.depth && outer.x <= inner.x + slack && outer.x + outer.width >= inner.x + inner.width - slack;
  const zoom = (to) => {
    zoomed = to;
    const k = 100 / to.width;
    for (const box of boxes) {
      const above = box !== to && holds(box, to);
      const within = holds(to, box);
      box.shown = above ? 100 : within ? box.width * k : 0;
      box.el.classList.toggle("above", above);
      box.el.setAttribute("display", box.shown > 0.02 ? "inline" : "none");
      box.el.setAttribute("x", (above ? 0 : (box.x - to.x) * k) + "%");
      box.el.setAttribute("width", box.shown + "%");
    }
    whole.hidden = to === root;
    fit();
  };

  const bar = document.createElement("div");
  bar.className = "finder";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Search functions";
  input.setAttribute("aria-label", "Search functions");
  const whole = document.createElement("button");
  whole.type = "button";
  whole.textContent = "Show the whole";
  whole.addEventListener("click", () => zoom(root));
  const sum = document.createElement("output");
  bar.append(input, whole, sum);
  graph.parentNode.before(bar);
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    let share = 0;
    let end = [];
    // Boxes come parents first: what lies below a found one is not counted twice.
    for (const box of boxes) {
      const found = wanted !== "" && box.name.toLowerCase().includes(wanted);
      box.el.classList.toggle("found", found);
      if (found && !end.some((outer) => holds(outer, box))) {
        share += box.width;
        end = [...end.filter((outer) => outer.x + outer.width > box.x), box];
      }
    }
    sum.textContent = wanted === "" ? "" : share === 0 ? "not found" : share.toFixed(1) + " % of the whole";
  });

  graph.addEventListener("click", (event) => {
    const box = boxes.find((b) => b.el === event.target.closest(".flame > svg"));
    if (box) zoom(box);
  });
  graph.addEventListener("keydown", (event) => {
    const at = boxes.find((b) => b.el === document.activeElement);
    if (!at) return;
    const seen = boxes.filter((b) => b.shown > 0.3);
    let to;
    switch (event.key) {
      case "Enter": case " ": zoom(at); break;
      case "Escape": zoom(root); break;
      case "ArrowUp": to = seen.find((b) => b.depth === at.depth - 1 && holds(b, at)); break;
      case "ArrowDown": to = seen.find((b) => b.depth === at.depth + 1 && holds(at, b)); break;
      case "ArrowRight": to = seen.filter((b) => b.depth === at.depth && b.x > at.x).sort((a, b) => a.x - b.x)[0]; break;
      case "ArrowLeft": to = seen.filter((b) => b.depth === at.depth && b.x < at.x).sort((a, b) => b.x - a.x)[0]; break;
      default: return;
    }
    event.preventDefault();
    if (!to) return;
    at.el.setAttribute("tabindex", "-1");
    to.el.setAttribute("tabindex", "0");
    to.el.focus();
    const place = to.el.getBoundingClientRect();
    tell(to.el, place.left, place.top);
  });
  addEventListener("resize", fit);
  zoom(root);
}
