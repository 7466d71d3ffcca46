// Adds to complete pages: live values, the cursor, zoom by dragging, and the filter. Without it all links and forms work.
"use strict";
(() => {
  document.documentElement.classList.add("script");
  const $ = (id) => document.getElementById(id);
  const markup = window.trustedTypes
    ? window.trustedTypes.createPolicy("weir", { createHTML: (text) => text }) // text is a fragment of our own server
    : { createHTML: (text) => text };
  const fill = (element, html) => { element.innerHTML = markup.createHTML(html); };
  const say = (text) => { $("say").textContent = text; };

  // ---- times ----------------------------------------------------------------------------------------------------
  // The server writes UTC. A reader sees the zone of the browser, and UTC by the switch. Ages are computed by the server, so a
  // wrong clock of the browser changes none.
  const utcOnly = () => localStorage.getItem("weir-utc") === "1";
  const zone = () => (utcOnly() ? "UTC" : undefined);
  const print = (date, options) => new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", timeZone: zone(), ...options }).format(date);
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" }, minute = { hour: "2-digit", minute: "2-digit" };
  const forms = {
    clock: (d) => print(d, clock),
    minute: (d) => print(d, minute),
    day: (d) => print(d, { day: "numeric", month: "short" }) + " " + print(d, minute),
    long: (d) => print(d, { weekday: "short", day: "numeric", month: "short", year: "numeric" }).replace(",", "") + ", " + print(d, { ...clock, timeZoneName: "short" }),
  };
  const local = new Date().getTimezoneOffset() !== 0 || new Date(2026, 6, 1).getTimezoneOffset() !== 0;
  function times(root) {
    if (!local) return; // the zone of the reader is UTC
    for (const e of root.querySelectorAll("time[data-form]")) {
      const form = e.textContent.match(/^\d+ \w+ /) ? "day" : e.dataset.form;
      e.textContent = forms[form](new Date(e.getAttribute("datetime")));
    }
    for (const e of root.querySelectorAll("text[data-t]")) {
      const at = Number(e.dataset.t), d = new Date(at);
      if (!at) continue;
      e.textContent = print(d, minute) === "00:00" ? print(d, { weekday: "short", day: "numeric", month: "short" }).replace(",", "") : print(d, e.textContent.length > 5 && e.textContent.includes(":") ? clock : minute);
    }
    const own = print(new Date(), { timeZoneName: "short" }).split(" ").pop();
    $("zone").textContent = utcOnly() ? "times in UTC: show local time" : "times in " + own + ": show UTC";
    $("zone").classList.remove("hidden-zone");
  }
  $("zone").addEventListener("click", () => {
    localStorage.setItem("weir-utc", utcOnly() ? "0" : "1");
    times(document);
  });

  // ---- live pages -----------------------------------------------------------------------------------------------
  const address = document.body.dataset.events;
  let source = null;
  let lost = 0;

  function away(why) {
    const live = $("live");
    if (live) {
      live.textContent = "not live";
      live.parentElement.classList.add("away");
    }
    const notice = document.createElement("p");
    notice.className = "notice";
    const strong = document.createElement("strong");
    strong.textContent = "This page is out of date.";
    notice.append(strong, " " + why);
    $("away").replaceChildren(notice);
  }
  function back(text) {
    const live = $("live");
    if (live) {
      live.textContent = text;
      live.parentElement.classList.toggle("away", text.startsWith("last tick"));
    }
    $("away").replaceChildren();
  }
  function connect() {
    if (source || !address || document.hidden) return;
    source = new EventSource(address);
    source.onopen = () => {
      if (lost) refresh();
      lost = 0;
    };
    source.onerror = () => {
      if (!lost) lost = performance.now(); // not of the clock, which may be wrong
      const age = Math.round((performance.now() - lost) / 1000);
      away("The server " + (age > 0 ? "has not answered for " + age + " s" : "does not answer") + ". All values are from before.");
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(connect, 5000);
      }
    };
    source.addEventListener("changed", () => refresh());
    source.addEventListener("tick", () => refresh());
    source.addEventListener("pools", (e) => fleet(JSON.parse(e.data)));
  }
  function disconnect() {
    if (source) source.close();
    source = null;
  }
  // A hidden page has no stream: a browser has six connections to a host. When it shows again it reads its present state.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      disconnect();
    } else if (!source) {
      connect();
      refresh();
    }
  });
  function refresh() {
    return $("pool") ? refreshPool() : $("fleet") ? refreshFleet() : null;
  }

  // While a button of the pointer is down, the page keeps its elements: a click needs the same one at its press and its release.
  const late = new Set(); // changes that wait for the release
  let down = false;
  for (const type of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) {
    document.addEventListener(type, (event) => {
      down = (event.buttons & 5) !== 0; // the left or the middle one: a menu takes the release of the right one
      if (!down && late.size > 0) setTimeout(changeNow); // after the click
    }, true);
  }
  function changeNow() {
    const changes = [...late];
    late.clear();
    for (const change of changes) change();
  }
  // waits reports whether a change of the page waits for the release. It stays behind earlier ones.
  function waits(change) {
    if (!down && late.size === 0) return false;
    late.add(change);
    return true;
  }

  // ---- fleet ----------------------------------------------------------------------------------------------------
  async function refreshFleet() {
    const response = await fetch("/pools").catch(() => null);
    if (!response || !response.ok) return;
    const page = new DOMParser().parseFromString(markup.createHTML(await response.text()), "text/html");
    if (waits(refreshFleet)) return;
    $("head").replaceWith(page.getElementById("head"));
    const old = $("fleet"), now = page.getElementById("fleet");
    if (old && now && !held(old)) old.replaceWith(now);
    const live = $("live"), state = page.getElementById("live");
    live.textContent = state.textContent;
    live.parentElement.className = state.parentElement.className;
    $("away").replaceWith(page.getElementById("away"));
    filter();
  }
  const held = (list) => list.matches(":hover") || list.contains(document.activeElement);

  function fleet(data) {
    if (waits(() => fleet(data))) return;
    if (data.away) {
      refreshFleet();
      return;
    }
    fill($("head"), data.head);
    times($("head"));
    back(data.live);
    const list = $("fleet");
    if (!list) {
      location.reload();
      return;
    }
    for (const row of data.rows || []) {
      const old = $("p:" + row.id);
      const holder = document.createElement("tbody");
      fill(holder, row.html);
      const fresh = holder.firstElementChild;
      if (old && !old.contains(document.activeElement)) old.replaceWith(fresh);
      else if (!old) list.tBodies[list.tBodies.length - 1].append(fresh);
    }
    if (held(list)) return; // the order changes only while nobody points at the list
    const known = new Set();
    data.order.forEach((ids, i) => {
      const group = list.tBodies[i];
      for (const id of ids) {
        const row = $("p:" + id);
        if (row) group.append(row);
        known.add("p:" + id);
      }
    });
    for (const row of list.querySelectorAll(".pool")) if (!known.has(row.id)) row.remove();
    filter();
  }

  function filter() {
    const box = $("q"), list = $("fleet");
    if (!box || !list) return;
    const needle = box.value.trim().toLowerCase();
    let shown = 0;
    for (const group of list.tBodies) {
      let n = 0;
      for (const row of group.querySelectorAll(".pool")) {
        const on = (row.id.slice(2) + " " + row.querySelector(".state").textContent).toLowerCase().includes(needle);
        row.classList.toggle("off", !on);
        if (on) n++;
      }
      group.classList.toggle("empty", n === 0);
      group.querySelector(".count").textContent = n;
      shown += n;
    }
    $("nothing").classList.toggle("hidden", shown > 0);
    $("needle").textContent = box.value;
  }
  if ($("q")) {
    $("q").addEventListener("input", () => {
      filter();
      const url = new URL(location.href);
      if ($("q").value) url.searchParams.set("q", $("q").value);
      else url.searchParams.delete("q");
      history.replaceState(null, "", url);
    });
    // A filtered page of the server has the matching rows only. The script filters all rows.
    if (new URL(location.href).searchParams.get("q")) refreshFleet();
  }

  // ---- pool -----------------------------------------------------------------------------------------------------
  let columns = null; // promise of the columns of the plots; it is kept, so that quick keys fetch once
  let at = -1;        // column of the cursor; -1: none
  let pinned = false; // a click or a key has set the cursor, and it stays when the pointer leaves
  let heldSince = 0;  // since when a reader of a tick holds the page; 0: it is live
  const live = new URL(location.href).searchParams.get("at") === null && Boolean(document.body.dataset.events);
  const hold = () => {
    if (heldSince && live && $("live")) $("live").textContent = "held, " + Math.round((performance.now() - heldSince) / 1000) + " s old";
  };
  setInterval(hold, 1000);

  // The order forms stay, as an operator may write one. A pool that was paused or resumed has another first form.
  const first = (orders) => orders && orders.querySelector("form").dataset.order; // null: a window of the past has none
  const written = (orders) => orders.querySelector("input:focus") ||
    [...orders.querySelectorAll('input:not([type="password"])')].some((e) => e.value !== e.defaultValue); // a browser fills in passwords

  async function refreshPool() {
    const pool = $("pool");
    if (at >= 0) return; // a reader of a tick is not disturbed
    const response = await fetch(pool.dataset.href + pool.dataset.query + "&part=plots").catch(() => null);
    if (!response || !response.ok) {
      if (response) location.reload();
      return;
    }
    const gone = response.headers.get("Weir-Away");
    if (gone) away("The source of its data does not answer. All values are from before.");
    const html = await response.text();
    if (at >= 0 || waits(refreshPool)) return;
    const before = (pool.querySelector('.figures [data-key="target"]') || {}).textContent;
    const focused = document.activeElement === $("plots");
    const fresh = document.createElement("div");
    fill(fresh, html);
    times(fresh);
    $("now").replaceWith(fresh.querySelector("#now"));
    columns = null;
    const orders = $("order-forms"), others = fresh.querySelector("#order-forms");
    if (first(orders) !== first(others) && !written(orders)) orders.replaceWith(others);
    const after = (pool.querySelector('.figures [data-key="target"]') || {}).textContent;
    if (before !== after) say("The target changed from " + before + " to " + after);
    if (focused && $("plots")) $("plots").focus({ preventScroll: true });
    if (!gone) back($("at").dataset.live);
  }

  function load() {
    if (!columns) {
      columns = fetch($("plots").dataset.series).then((r) => {
        if (!r.ok) throw new Error("no columns");
        return r.json();
      });
      columns.catch(() => { columns = null; });
    }
    return columns;
  }
  const digits = (x) => {
    if (x === null || x === undefined) return "–";
    const n = Math.abs(x);
    return String(n >= 1000 ? Math.round(x) : Number(x.toPrecision(n >= 100 ? 4 : 3)));
  };
  const verdicts = ["value", "no opinion", "stale", "failed"];

  // text returns the value of a key at a column.
  function text(data, key, i) {
    const value = (k) => (data.values[k] ? data.values[k][i] : null);
    if (key === "limits" && value("min") === null) return "–";
    if (key === "limits") return digits(value("min")) + "–" + digits(value("max"));
    if (key === "setpoint") return value(key) === null ? "–" : Math.round(value(key) * 100) + " %";
    if (key.startsWith("v:")) {
      const verdict = value(key), latency = value("l:" + key.slice(2));
      return (verdict === null ? "–" : verdicts[verdict]) + (latency === null ? "" : " · " + digits(latency) + " ms");
    }
    if (key.startsWith("i:") && value("r:" + key.slice(2)) === null) return "–";
    if (key.startsWith("i:")) return digits(value("r:" + key.slice(2))) + " of " + digits(value("e:" + key.slice(2)));
    if (key === "q+") return "";
    return digits(value(key));
  }

  // moment returns the time of a column: of its last tick, or of its start.
  const moment = (data, i) => new Date(data.times[i] || data.from + ((data.to - data.from) * i) / data.times.length);

  async function show(i) {
    at = i;
    if (!heldSince) heldSince = performance.now();
    hold();
    const data = await load().catch(() => null);
    if (!data || at !== i) return;
    const line = $("cursor"), x = ((i + 0.5) / data.times.length) * 100 + "%";
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    line.setAttribute("class", "cursor");
    for (const element of $("pool").querySelectorAll("[data-key]")) {
      if (!element.dataset.was) element.dataset.was = element.textContent;
      const key = element.dataset.key;
      if (element.closest(".nodes")) element.textContent = "weight " + text(data, key, i);
      else element.textContent = text(data, key, i);
    }
    const date = moment(data, i), when = date.toISOString();
    $("pool").classList.add("then"); // states and sentence are of now
    $("moment").textContent = forms.long(date);
    $("at").textContent = forms.clock(date);
    $("open").href = $("pool").dataset.href + "/ticks/" + when;
    if (pinned) keep(when);
    say(forms.minute(date) + ": target " + text(data, "target", i) + ", need " + text(data, "unlimited", i) + ", joined " + text(data, "joined", i));
  }
  // keep stores the cursor in the address, so that Back returns to it.
  function keep(when) {
    const url = new URL(location.href);
    if (when) url.searchParams.set("at", when);
    else url.searchParams.delete("at");
    history.replaceState(null, "", url);
  }
  function leave() {
    if (at < 0) return;
    at = -1;
    pinned = false;
    heldSince = 0;
    $("pool").classList.remove("then");
    if (!live) {
      keep("");
      location.reload(); // the server has drawn a time of the past
      return;
    }
    keep("");
    for (const element of $("pool").querySelectorAll("[data-was]")) {
      element.textContent = element.dataset.was;
      delete element.dataset.was;
    }
    $("cursor").setAttribute("class", "cursor off");
    say("");
    refreshPool();
  }

  // place returns the column below the pointer; -1 outside the plots.
  function place(event) {
    const box = document.querySelector(".under").getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    return share < 0 || share >= 1 ? -1 : Math.floor(share * Number($("plots").dataset.columns));
  }
  function pointed(event) {
    const plots = event.target.closest && event.target.closest("#plots");
    return plots ? place(event) : -1;
  }
  let drag = null; // {from, mark} while the pointer is down

  document.addEventListener("pointermove", (event) => {
    if (!$("plots")) return;
    const i = pointed(event);
    if (drag && i >= 0) {
      const n = Number($("plots").dataset.columns), a = Math.min(drag.from, i), b = Math.max(drag.from, i);
      drag.mark.setAttribute("x", (a / n) * 100 + "%");
      drag.mark.setAttribute("width", ((b - a) / n) * 100 + "%");
      drag.to = i;
    } else if (pinned) {
      return;
    } else if (i >= 0 && event.pointerType === "mouse") {
      show(i);
    } else if (i < 0 && at >= 0 && document.activeElement !== $("plots")) {
      leave();
    }
  });
  document.addEventListener("pointerdown", (event) => {
    const i = $("plots") ? pointed(event) : -1;
    if (i < 0 || event.button !== 0 || event.pointerType !== "mouse") return;
    const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    mark.setAttribute("class", "zoom");
    mark.setAttribute("height", "100%");
    document.querySelector(".front").append(mark);
    drag = { from: i, to: i, mark };
    event.preventDefault();
    $("plots").focus({ preventScroll: true });
  });
  document.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const d = drag;
    drag = null;
    d.mark.remove();
    const n = Number($("plots").dataset.columns), from = Number($("plots").dataset.from), to = Number($("plots").dataset.to);
    if (Math.abs(d.to - d.from) < Math.max(4, n / 100)) {
      if (event.target.closest("#plots")) { // a click selects, and Enter opens
        pinned = true;
        show(d.from);
      }
      return;
    }
    const time = (i) => new Date(from + ((to - from) * i) / n).toISOString().slice(0, 19) + "Z";
    const url = new URL($("pool").dataset.query, location.href);
    url.searchParams.delete("range");
    url.searchParams.set("from", time(Math.min(d.from, d.to)));
    url.searchParams.set("to", time(Math.max(d.from, d.to) + 1));
    url.searchParams.delete("at");
    location.href = url;
  });
  const open = () => { if (at >= 0 || !live) location.href = $("open").href; };
  // drawn returns the column of the cursor that the server has drawn; n without one.
  function drawn(n) {
    const line = $("cursor");
    return line.classList.contains("off") ? n : Math.floor((parseFloat(line.getAttribute("x1")) / 100) * n);
  }

  document.addEventListener("keydown", (event) => {
    const plots = $("plots");
    if (!plots || document.activeElement !== plots || event.ctrlKey || event.metaKey || event.altKey) return;
    const n = Number(plots.dataset.columns), now = at < 0 ? drawn(n) : at;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 30, PageDown: now + 30, Home: 0, End: n - 1 }[event.key];
    if (to !== undefined) {
      pinned = true;
      show(Math.min(Math.max(to, 0), n - 1));
    }
    else if (event.key === "Enter") open();
    else if (event.key === "Escape") {
      leave(); // the focus stays, so that the keys go on
    } else return;
    event.preventDefault();
  });

  // ---- orders ---------------------------------------------------------------------------------------------------
  // An order goes to the API of this server with the token that the operator gives. The page does not keep the token.
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form.order");
    if (!form) return;
    event.preventDefault();
    const data = new FormData(form), body = { reason: data.get("reason") }, answer = form.querySelector(".answer");
    if (data.has("for") && data.get("for") !== "") body.for = Number(data.get("for")) * 60;
    if (data.has("weight")) body.weight = Number(data.get("weight"));
    const headers = { "Content-Type": "application/json" };
    if (data.get("token")) headers.Authorization = "Bearer " + data.get("token");
    answer.className = "answer";
    answer.textContent = "…";
    const response = await fetch(form.dataset.order, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => null);
    const result = response ? await response.json().catch(() => ({})) : { error: "the server does not answer" };
    const ok = response && response.ok;
    answer.textContent = ok ? "ordered; the next tick follows it" : result.error || "status " + response.status;
    answer.classList.toggle("bad-text", !ok);
    if (!ok) return;
    form.reset();
    if (form.contains(document.activeElement)) form.querySelector("button").focus();
  });

  times(document);
  connect();
})();
