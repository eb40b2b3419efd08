"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // -- light and dark: as the system says until somebody chooses ---------------------------------
  const KEY = "fairweight-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { byId("theme").textContent = isDark() ? "Light" : "Dark"; };
  try { if (localStorage.getItem(KEY)) root.dataset.theme = localStorage.getItem(KEY); } catch { /* a page from a file may not */ }
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* then it is forgotten */ }
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();

  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    if (text !== null) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };

  // -- words explained, by pointer and by keyboard; Escape closes ----------------------------------
  const tip = byId("tip");
  const showTip = (term) => {
    tip.textContent = byId(term.getAttribute("aria-describedby")).textContent;
    tip.hidden = false;
    const word = term.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const below = word.bottom + 6 + box.height < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(word.left, document.documentElement.clientWidth - box.width - 8))}px`;
    tip.style.top = `${below ? word.bottom + 6 : Math.max(4, word.top - box.height - 6)}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  for (const term of document.querySelectorAll(".term")) {
    for (const event of ["mouseenter", "focus", "click"]) term.addEventListener(event, () => showTip(term));
    for (const event of ["mouseleave", "blur"]) term.addEventListener(event, hideTip);
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  addEventListener("scroll", hideTip, { passive: true });

  // -- a link into something folded unfolds it ----------------------------------------------------
  const unfold = (name) => {
    const place = name && document.getElementById(name.slice(1));
    const fold = place && (place.closest("details") ?? place.querySelector("details.rows"));
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", () => unfold(location.hash));
  document.addEventListener("click", (event) => unfold(event.target.closest('a[href^="#"]')?.hash)); // a second click changes no hash
  unfold(location.hash);

  // -- a table that is wider than the window says so ------------------------------------------------
  const hints = Array.from(document.querySelectorAll(".scroll"), (box) => {
    const hint = element("p", "Scroll sideways for more →", { class: "hint", "aria-hidden": "true" });
    box.before(hint);
    return [box, hint];
  });
  const measure = () => { for (const [box, hint] of hints) hint.classList.toggle("needed", box.scrollWidth > box.clientWidth + 1); };
  addEventListener("resize", measure);
  document.addEventListener("toggle", measure, true);
  measure();

  // -- candidates: a dot shows its row and its command ----------------------------------------------
  for (const front of document.querySelectorAll(".front")) {
    const detail = front.querySelector(".front-detail");
    const dots = Array.from(front.querySelectorAll(".dot"));
    const titles = Array.from(front.parentElement.querySelectorAll(".choices thead th"), (head) => head.textContent);
    const pick = (dot) => {
      for (const other of dots) other.classList.toggle("shown", other === dot);
      const [name, ...cells] = byId(`choice-${dot.dataset.choice}`).cells;
      const list = element("dl", null);
      const parts = [element("h4", name.textContent), list];
      cells.forEach((cell, k) => {
        if (cell.classList.contains("command")) parts.push(cell.firstElementChild.cloneNode(true));
        else if (cell.textContent) list.append(element("dt", titles[k + 1]), element("dd", cell.textContent));
      });
      detail.replaceChildren(...parts);
    };
    dots.forEach((dot, k) => {
      for (const event of ["mouseenter", "focus", "click"]) dot.addEventListener(event, () => pick(dot));
      dot.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step) { event.preventDefault(); dots[(k + step + dots.length) % dots.length].focus(); }
      });
    });
    const first = dots.find((dot) => dot.classList.contains("chosen"));
    if (first) pick(first);
    // A name stands beside its dot where it hides nothing; where there is no such place it gives way to those of the
    // chosen, the plain and the best.
    const PLACES = [[10, -8, "start"], [-10, -8, "end"], [10, 16, "start"], [-10, 16, "end"]];
    const width = front.querySelector("svg").viewBox.baseVal.width;
    const apart = (a, b) => a.x > b.x + b.width || b.x > a.x + a.width || a.y > b.y + b.height || b.y > a.y + a.height;
    const rank = (dot) => ["chosen", "plain", "best"].findIndex((kind) => dot.classList.contains(kind)) >>> 0;
    const placed = dots.map((dot) => dot.querySelector(".mark").getBBox());
    for (const name of [...dots].sort((a, b) => rank(a) - rank(b)).map((dot) => dot.querySelector(".name")).filter(Boolean)) {
      const free = PLACES.some(([right, down, anchor]) => {
        name.setAttribute("x", Number(name.dataset.x) + right);
        name.setAttribute("y", Number(name.dataset.y) + down);
        name.setAttribute("text-anchor", anchor);
        const box = name.getBBox();
        return box.x >= 0 && box.x + box.width <= width && placed.every((other) => apart(box, other));
      });
      if (free) placed.push(name.getBBox()); else name.remove();
    }
  }

  // -- the samples: columns of numbers; a name is its place among the column's names, which are in order ----
  const holder = byId("data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const typed = (column) => ({ ...column, values: Float64Array.from(column.values, (value) => value ?? NaN) });
  const columns = data.columns.map(typed);
  const source = data.source.map(typed);
  const named = Object.fromEntries(columns.map((column) => [column.name, column]));
  const everything = Uint32Array.from({ length: data.n }, (_, i) => i);
  const BARS = "▁▂▃▄▅▆▇█";
  const PAGE = 50;
  const LONG = 60; // letters of a value on the screen; the search and the download have it whole
  const state = { sort: "rank", down: false, page: 0, rows: everything };

  const nameOf = (column, i) => column.names[column.values[i]] ?? "";
  const rounded = (value, digits, unknown) => (Number.isNaN(value) ? unknown : String(Number(value.toPrecision(digits))));
  const plain = (column, i) => (column.kind === "name" ? nameOf(column, i) : rounded(column.values[i], 15, ""));

  // -- which samples, in which order -----------------------------------------------------------
  const filtered = () => {
    const wanted = ["label", "group"].filter((name) => named[name] && byId(`filter-${name}`).value !== "")
      .map((name) => [named[name].values, Number(byId(`filter-${name}`).value)]);
    const words = byId("filter-text").value.trim().toLowerCase();
    const searched = [...columns, ...source].filter((column) => column.kind === "name")
      .map(({ names, values }) => [values, names.map((name) => name.toLowerCase().includes(words))]);
    const found = (i) => String(named.row.values[i]) === words || searched.some(([values, hit]) => hit[values[i]]);
    return everything.filter((i) => wanted.every(([values, code]) => Object.is(values[i], code)) && (words === "" || found(i)));
  };
  const sorted = (rows) => {
    const keys = named[state.sort].values;
    const sign = state.down ? -1 : 1;
    return rows.sort((a, b) => {
      const x = keys[a], y = keys[b];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b; // unknown comes last
      return sign * (x - y) || a - b;
    });
  };
  const refresh = () => { state.rows = sorted(filtered()); state.page = 0; show(); };
  const sortBy = (name, down) => { state.sort = name; state.down = down; refresh(); };

  // -- what is on the screen ------------------------------------------------------------------------
  const shown = columns.filter((column) => column.name !== "visits");
  const hasSample = source.length > 0 || Object.keys(data.images).length > 0;
  const tidy = (text) => (/^-?\d*\.\d{6,}(e[-+]?\d+)?$/.test(text) ? rounded(Number(text), 5, "")
    : text.length > LONG ? `${text.slice(0, LONG - 1)}…` : text);

  const sampleCell = (i) => {
    const cell = element("td", null, { class: source.length ? "sample words" : "sample", "data-title": "" });
    const line = (part) => element("span", part.map((column) => `${column.title} ${tidy(nameOf(column, i)) || "–"}`).join(" · "));
    if (data.images[i]) {
      cell.append(element("img", null, { class: "thumb", src: data.images[i], alt: `row ${named.row.values[i]}` }));
    } else if (source.length) {
      cell.append(line(source.slice(0, 5)));
      if (source.length > 5) {
        const more = element("details", null);
        more.append(element("summary", "more"), line(source.slice(5)));
        cell.append(more);
      }
    }
    return cell;
  };

  const textFor = (column, i) => {
    if (column.kind === "name") return nameOf(column, i) || "–";
    if (column.name === "probability") return `${(100 * column.values[i]).toFixed(1)} %`;
    if (column.name === "pushed_up" && named.visits) return `${column.values[i]} of ${named.visits.values[i]}`;
    return column.kind === "integer" ? column.values[i].toLocaleString("en") : rounded(column.values[i], 3, "–");
  };

  const lineOf = (i) => {
    const line = element("tr", null, { "data-row": named.row.values[i] });
    if (hasSample) line.append(sampleCell(i));
    for (const column of shown) {
      const text = textFor(column, i);
      const cell = element("td", text.length > LONG ? null : text, { "data-title": column.title, "data-name": column.name, class: column.kind === "name" ? "" : "num" });
      if (text.length > LONG) cell.append(element("span", text, { class: "long", title: text }));
      if (column.name === "score" && data.paths) cell.append(" ", element("span", Array.from(data.paths[i], (digit) => BARS[digit]).join(""), { class: "path" }));
      line.append(cell);
    }
    return line;
  };

  const show = () => {
    const pages = Math.max(1, Math.ceil(state.rows.length / PAGE));
    byId("explorer").tBodies[0].replaceChildren(...Array.from(state.rows.slice(state.page * PAGE, (state.page + 1) * PAGE), lineOf));
    byId("count").textContent = `${state.rows.length.toLocaleString("en")} of ${data.n.toLocaleString("en")} samples`;
    byId("page").textContent = `Page ${state.page + 1} of ${pages}`;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page === pages - 1;
    byId("download").disabled = state.rows.length === 0;
    for (const head of byId("explorer").tHead.querySelectorAll("th[data-name]")) {
      head.setAttribute("aria-sort", head.dataset.name !== state.sort ? "none" : state.down ? "descending" : "ascending");
    }
  };

  // -- what can be chosen ---------------------------------------------------------------------------
  const heads = element("tr", null);
  if (hasSample) heads.append(element("th", "Sample", { scope: "col" }));
  for (const column of shown) {
    const head = element("th", null, { scope: "col", "data-name": column.name, class: column.kind === "name" ? "" : "num" });
    const button = element("button", column.title, { type: "button", title: column.meaning ?? "" });
    button.addEventListener("click", () => {
      sortBy(column.name, state.sort === column.name ? !state.down : column.kind === "number");
      byId("order").value = "";
    });
    head.append(button);
    heads.append(head);
  }
  byId("explorer").tHead.replaceChildren(heads);

  const option = (select, title, value) => byId(select).append(element("option", title, { value }));
  for (const name of ["label", "group"].filter((name) => named[name])) {
    const counts = new Map([...named[name].names, ""].map((_, code) => [code, 0]));
    for (const code of named[name].values) counts.set(code, (counts.get(code) ?? 0) + 1);
    option(`filter-${name}`, "all", "");
    for (const [code, n] of counts) {
      if (n) option(`filter-${name}`, `${named[name].names[code] ?? "not known"} (${n.toLocaleString("en")})`, code);
    }
    byId(`filter-${name}`).addEventListener("change", refresh);
  }
  byId("group-control").hidden = !named.group;

  const ORDERS = [["rank", "", "most suspect label"], ["weight", "down", "weighted up most"], ["weight", "", "weighted down most"],
    ["score", "", "lowest score"], ["ema_loss", "down", "highest loss"], ["mean_probability_margin", "", "lowest margin"],
    ["mean_margin", "", "lowest logit margin"], ["forgetting_events", "down", "forgotten most"], ["row", "", "row"]];
  option("order", "as sorted below", "");
  for (const [name, down, title] of ORDERS) if (named[name]) option("order", title, `${name} ${down}`);
  byId("order").value = "rank ";
  byId("order").addEventListener("change", () => {
    const [name, down] = byId("order").value.split(" ");
    if (name) sortBy(name, down === "down");
  });

  // -- the selection as a file -------------------------------------------------------------------
  // What a spreadsheet would run gets a quote before it, as in data/safe_csv.py.
  const inert = (text) => (/^ *[=+\-@\t\r\n＝＋－＠]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text);
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${inert(text).replaceAll('"', '""')}"` : inert(text));
  byId("download").addEventListener("click", () => {
    const all = [...columns, ...source];
    const lines = [all.map((column) => quoted(column.name)), ...Array.from(state.rows, (i) => all.map((column) => quoted(plain(column, i))))];
    const address = URL.createObjectURL(new Blob([lines.map((line) => `${line.join(",")}\r\n`).join("")], { type: "text/csv;charset=utf-8" }));
    element("a", null, { href: address, download: "samples.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  });

  let waiting = 0;
  byId("filter-text").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(refresh, 120); });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => { state.page -= 1; show(); });
  byId("next").addEventListener("click", () => { state.page += 1; show(); });
  refresh();
  root.dataset.ready = "yes";
})();
