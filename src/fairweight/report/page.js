"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // -- light and dark: as the system says until somebody chooses ---------------------------------
  const remembered = () => { try { return localStorage.getItem("fairweight-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("fairweight-theme", theme); } catch { /* a page from a file may not */ } };
  const systemDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = () => (root.dataset.theme ?? (systemDark() ? "dark" : "light")) === "dark";
  const nameTheme = () => { byId("theme").textContent = isDark() ? "Light" : "Dark"; };
  if (remembered() === "dark" || remembered() === "light") root.dataset.theme = remembered();
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    nameTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
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
  const unfold = () => {
    const place = location.hash && document.getElementById(location.hash.slice(1));
    const fold = place && (place.closest("details") ?? place.querySelector("details.rows"));
    if (fold) fold.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();

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
    // Names that would lie upon each other give way to those of the chosen, the plain and the best.
    const rank = (dot) => ["chosen", "plain", "best"].findIndex((kind) => dot.classList.contains(kind)) >>> 0;
    const placed = [];
    for (const name of [...dots].sort((a, b) => rank(a) - rank(b)).map((dot) => dot.querySelector(".name")).filter(Boolean)) {
      const box = name.getBBox();
      const free = placed.every((o) => box.x > o.x + o.width || o.x > box.x + box.width || box.y > o.y + o.height || o.y > box.y + box.height);
      if (free) placed.push(box); else name.remove();
    }
  }

  // -- the samples: columns of numbers, names once ------------------------------------------------
  const holder = byId("data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const KINDS = { Uint8Array, Uint16Array, Uint32Array, Float32Array };
  const unpacked = (column) => {
    const text = atob(column.bytes);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
    return { ...column, bytes: null, values: new KINDS[column.type](bytes.buffer) };
  };
  const columns = data.columns.map(unpacked);
  const source = data.source.map(unpacked);
  const named = Object.fromEntries(columns.map((column) => [column.name, column]));
  const BARS = "▁▂▃▄▅▆▇█";
  const PAGE = 50;
  const collator = new Intl.Collator(undefined, { numeric: true });

  const nameOf = (column, i) => column.names[column.values[i]];
  const shortest = (value) => (Number.isNaN(value) ? "" : String(Number(value.toPrecision(7))));
  const rounded = (value) => (Number.isNaN(value) ? "–" : String(Number(value.toPrecision(3))));
  const pathOf = (i) => {
    if (!data.path) return "";
    const digits = data.path.digits.slice(i * data.path.width, (i + 1) * data.path.width).trim();
    return Array.from(digits, (digit) => BARS[digit]).join("");
  };
  const plain = (column, i) => (column.kind === "name" ? nameOf(column, i)
    : column.kind === "integer" ? String(column.values[i]) : shortest(column.values[i]));

  // -- which samples, in which order -----------------------------------------------------------
  const state = { sort: "rank", down: false, page: 0, rows: new Uint32Array(0) };

  // What a column is sorted by: numbers as they are, names by their place in the alphabet.
  const keysOf = (column) => {
    if (column.kind !== "name") return column.values;
    if (!column.keys) {
      const order = column.names.map((_, code) => code).sort((a, b) => collator.compare(column.names[a], column.names[b]));
      const place = new Float32Array(order.length);
      order.forEach((code, k) => { place[code] = column.names[code] === "" ? NaN : k; });
      column.keys = Float32Array.from(column.values, (code) => place[code]);
    }
    return column.keys;
  };

  const filtered = () => {
    const label = byId("filter-label").value;
    const group = named.group ? byId("filter-group").value : "";
    const words = byId("filter-text").value.trim().toLowerCase();
    const searched = words === "" ? [] : [...columns, ...source].filter((column) => column.kind === "name")
      .map((column) => ({ values: column.values, hit: column.names.map((name) => name !== "" && name.toLowerCase().includes(words)) }));
    const row = /^\d+$/.test(words) ? Number(words) : -1;
    const found = new Uint32Array(data.n);
    let count = 0;
    for (let i = 0; i < data.n; i += 1) {
      if (label !== "" && named.label.values[i] !== Number(label)) continue;
      if (group !== "" && named.group.values[i] !== Number(group)) continue;
      if (words !== "" && named.row.values[i] !== row && !searched.some((column) => column.hit[column.values[i]])) continue;
      found[count] = i;
      count += 1;
    }
    return found.slice(0, count);
  };

  const sorted = (rows) => {
    const keys = keysOf(named[state.sort]);
    const sign = state.down ? -1 : 1;
    return rows.sort((a, b) => {
      const x = keys[a], y = keys[b];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b; // unknown comes last
      return sign * (x - y) || a - b;
    });
  };

  const refresh = () => {
    state.rows = sorted(filtered());
    state.page = 0;
    show();
  };

  // -- what is on the screen ------------------------------------------------------------------------
  const shown = columns.filter((column) => column.name !== "visits");
  const hasSample = source.length > 0 || Object.keys(data.images).length > 0;

  // On the screen a value of the source is kept short; the search and the download have it whole.
  const LONG = 60;
  const tidy = (text) => (/^-?\d*\.\d{6,}(e[-+]?\d+)?$/.test(text) ? String(Number(Number(text).toPrecision(5)))
    : text.length > LONG ? `${text.slice(0, LONG - 1)}…` : text);

  const sampleCell = (i) => {
    const cell = element("td", null, { class: source.length ? "sample words" : "sample", "data-title": "" });
    if (data.images[i]) {
      cell.append(element("img", null, { class: "thumb", src: data.images[i], alt: `row ${named.row.values[i]}` }));
    } else if (source.length) {
      const line = (part) => part.map((column) => `${column.title} ${tidy(nameOf(column, i)) || "–"}`).join(" · ");
      cell.append(element("span", line(source.slice(0, 5))));
      if (source.length > 5) {
        const more = element("details", null);
        more.append(element("summary", "more"), element("span", line(source.slice(5))));
        cell.append(more);
      }
    }
    return cell;
  };

  const textFor = (column, i) => {
    if (column.kind === "name") return nameOf(column, i) || "–";
    if (column.name === "probability") return `${(100 * column.values[i]).toFixed(1)} %`;
    if (column.name === "pushed_up" && named.visits) return `${column.values[i]} of ${named.visits.values[i]}`;
    return column.kind === "integer" ? column.values[i].toLocaleString("en") : rounded(column.values[i]);
  };

  const show = () => {
    const pages = Math.max(1, Math.ceil(state.rows.length / PAGE));
    state.page = Math.min(Math.max(0, state.page), pages - 1);
    const part = state.rows.slice(state.page * PAGE, (state.page + 1) * PAGE);
    const lines = Array.from(part, (i) => {
      const line = element("tr", null, { "data-row": named.row.values[i] });
      if (hasSample) line.append(sampleCell(i));
      for (const column of shown) {
        const numeric = column.kind !== "name";
        const text = textFor(column, i);
        const cell = element("td", text.length > LONG ? null : text, { "data-title": column.title, "data-name": column.name, class: numeric ? "num" : "" });
        if (text.length > LONG) cell.append(element("span", text, { class: "long", title: text }));
        if (column.name === "score" && data.path) cell.append(" ", element("span", pathOf(i), { class: "path" }));
        line.append(cell);
      }
      return line;
    });
    byId("explorer").tBodies[0].replaceChildren(...lines);
    byId("count").textContent = `${state.rows.length.toLocaleString("en")} of ${data.n.toLocaleString("en")} samples`;
    byId("page").textContent = `Page ${state.page + 1} of ${pages}`;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page === pages - 1;
    byId("download").disabled = state.rows.length === 0;
    for (const head of byId("explorer").tHead.querySelectorAll("th[data-name]")) {
      const here = head.dataset.name === state.sort;
      head.setAttribute("aria-sort", here ? (state.down ? "descending" : "ascending") : "none");
    }
  };

  const sortBy = (name, down) => { state.sort = name; state.down = down; refresh(); };

  const heads = () => {
    const line = element("tr", null);
    if (hasSample) line.append(element("th", "Sample", { scope: "col" }));
    for (const column of shown) {
      const head = element("th", null, { scope: "col", "data-name": column.name, class: column.kind === "name" ? "" : "num" });
      const button = element("button", column.title, { type: "button", title: column.meaning ?? "" });
      button.addEventListener("click", () => {
        sortBy(column.name, state.sort === column.name ? !state.down : column.kind === "number");
        byId("order").value = "";
      });
      head.append(button);
      line.append(head);
    }
    byId("explorer").tHead.replaceChildren(line);
  };

  const choices = (select, column) => {
    select.append(element("option", "all", { value: "" }));
    const counts = new Map();
    for (const code of column.values) counts.set(code, (counts.get(code) ?? 0) + 1);
    const codes = [...counts.keys()].sort((a, b) => collator.compare(column.names[a], column.names[b]));
    for (const code of codes) {
      select.append(element("option", `${column.names[code] || "not known"} (${counts.get(code).toLocaleString("en")})`, { value: code }));
    }
  };

  const orders = () => {
    const offers = [["rank", false, "most suspect label"], ["weight", true, "weighted up most"], ["weight", false, "weighted down most"],
      ["score", false, "lowest score"], ["ema_loss", true, "highest loss"], ["mean_probability_margin", false, "lowest margin"],
      ["mean_margin", false, "lowest logit margin"],
      ["forgetting_events", true, "forgotten most"], ["row", false, "row"]];
    const select = byId("order");
    select.append(element("option", "as sorted below", { value: "" }));
    for (const [name, down, title] of offers) {
      if (named[name]) select.append(element("option", title, { value: `${name} ${down}` }));
    }
    select.value = "rank false";
    select.addEventListener("change", () => {
      const [name, down] = select.value.split(" ");
      if (name) sortBy(name, down === "true");
    });
  };

  // -- the selection as a file -------------------------------------------------------------------
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const csv = () => {
    const all = [...columns, ...source];
    const lines = [all.map((column) => quoted(column.name)).join(",")];
    for (const i of state.rows) lines.push(all.map((column) => quoted(plain(column, i))).join(","));
    return `${lines.join("\r\n")}\r\n`;
  };
  byId("download").addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([csv()], { type: "text/csv;charset=utf-8" }));
    const link = element("a", null, { href: address, download: "samples.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  });

  let waiting = 0;
  byId("filter-text").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(refresh, 120); });
  byId("filter-label").addEventListener("change", refresh);
  byId("filter-group").addEventListener("change", refresh);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => { state.page -= 1; show(); });
  byId("next").addEventListener("click", () => { state.page += 1; show(); });

  heads();
  orders();
  choices(byId("filter-label"), named.label);
  if (named.group) choices(byId("filter-group"), named.group);
  else byId("group-control").hidden = true;
  refresh();
  root.dataset.ready = "yes";
})();
